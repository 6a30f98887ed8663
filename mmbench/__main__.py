"""Run the command line: ``mmbench``, or ``python -m mmbench``."""


def main() -> None:
    # Imported here: each worker process imports this module, and needs no command line.
    from mmbench import cli

    cli.main()


if __name__ == "__main__":
    main()
