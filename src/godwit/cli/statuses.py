"""Exit statuses of commands, besides 0 for yes or done."""

__all__ = ["STATUS_ERROR", "STATUS_INTERRUPTED", "STATUS_NO", "STATUS_UNKNOWN"]

STATUS_NO = 1  # the answer is no, or a check has failed
STATUS_ERROR = 2
STATUS_UNKNOWN = 3  # neither yes nor no: what would decide is not recorded
STATUS_INTERRUPTED = 130  # as shells have it for SIGINT
