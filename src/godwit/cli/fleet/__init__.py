"""The demonstration: five brokers on this machine, and a fleet of cars that roams over them."""
