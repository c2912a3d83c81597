"""The experiments of `spcf`: context-aware publish/subscribe.

| module | subject |
|---|---|
| `context_claims` | the claims S1 and S3 to S5, and the order of all |
| `throughput` | claim S2 |
| `fire_alarm` | the building on fire (S1) |
| `routing_net` | a network of routing machines in one process |
| `workload` | drawn clients, contexts and filters |
| `forwarding` | what forwarding an event costs |
| `routing_cost` | what subscriptions and changes of context cost |
| `bloom_rates` | how often Bloom filters cause a needless packet |
| `scale` | how large a quick and a full run are |
| `strategy_figures` | how a strategy looks in figures |
"""

from godwit.reproduce.spcf.context_claims import claims

__all__ = ["claims"]
