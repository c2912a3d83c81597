"""Traces of events and relocations for OpenTelemetry. (docs/guides/telemetry.md)"""

from godwit.runtime.telemetry.trace_context import traceparent_of

__all__ = ["traceparent_of"]
