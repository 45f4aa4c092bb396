"""`python -m edgeopt_agent` is the agent's command line, where the script `edgeopt-agent` is not on the PATH."""

from edgeopt_agent.main import main

if __name__ == "__main__":
    main()
