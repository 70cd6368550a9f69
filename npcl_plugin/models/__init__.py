"""The five methods: `npcl` and four thin relatives."""
