"""CESQL: the SQL of CloudEvents, version 1, as a language of subscriptions. See docs/reference/cesql.md."""

from godwit.languages.cesql.cesql_language import CESQL, CesqlLanguage
from godwit.languages.cesql.evaluation import ExpressionOutcome, ExpressionTest, Failure, evaluate, evaluate_text
from godwit.languages.cesql.expression_parser import parse_expression
from godwit.languages.cesql.expression_printer import expression_text

__all__ = [
    "CESQL",
    "CesqlLanguage",
    "ExpressionOutcome",
    "ExpressionTest",
    "Failure",
    "evaluate",
    "evaluate_text",
    "expression_text",
    "parse_expression",
]
