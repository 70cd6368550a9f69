"""Plain `nn.Module`s: attention, encoders, decoder. They know nothing of Mammoth."""
