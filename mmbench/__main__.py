"""Run the command line: ``mmbench``, or ``python -m mmbench``."""


def main() -> None:
    # Imported here: each worker process imports this module, and needs no command line.
    try:
        from mmbench import cli
    except KeyboardInterrupt:  # before anything has begun
        raise SystemExit(130) from None
    cli.main()


if __name__ == "__main__":
    main()
