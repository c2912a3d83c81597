"""`python -m godwit` is the command `godwit`."""

from godwit.cli.main import app

if __name__ == "__main__":
    app(prog_name="godwit")
