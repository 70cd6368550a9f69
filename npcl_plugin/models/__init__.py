"""The six methods: `npcl` and five thin relatives."""
