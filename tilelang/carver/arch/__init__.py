"""Facts of the machine a program runs on."""
