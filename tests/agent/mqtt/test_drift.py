"""Drift as the fleet sees it."""


def test_telemetry_and_report_tell_the_drift(start_device, client, topics, old_bundle):
    agent = start_device(mqtt={"telemetry_s": 0.2}, drift={"golden_s": 0})
    assert agent.deploy(old_bundle)["state"] == "COMMITTED"
    client.until(
        lambda: any("drift_alarm" in each["models"].get("null", {}) for each in client.of(topics.telemetry)),
        "telemetry of the drift",
    )
    figures = client.of(topics.telemetry)[-1]["models"]["null"]
    assert (figures["drift_alarm"], figures["drift_score"]) == (0, 0)
    told = client.reported(lambda each: each["status"]["serving"] and each["status"]["state"] == "serving")
    assert told["status"]["drift"]["state"] == "learning"
