"""What torch does slowly, in C: compiled where there is a compiler, once per machine."""
