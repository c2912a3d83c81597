"""`godwit team demo`: two sites and travellers over three brokers, in less than a minute."""
