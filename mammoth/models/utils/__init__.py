"""What the methods share: the base class and the pieces that several of them use."""
