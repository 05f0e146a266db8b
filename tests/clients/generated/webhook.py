"""Does a delivery verify with the Standard Webhooks libraries of Python and JavaScript, and a changed one not?"""

import http.server
import json
import os
import subprocess
import threading

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps the first delivery."""

    delivery = None
    arrived = threading.Event()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        Receiver.delivery = Receiver.delivery or (headers, body.decode())
        self.send_response(204)
        self.end_headers()
        Receiver.arrived.set()

    def log_message(self, *_):
        pass


def verifies_in_python(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def verifies_in_javascript(typescript, secret, headers, body):
    program = """
        import { Webhook, WebhookVerificationError } from "standardwebhooks";
        const { secret, headers, body } = JSON.parse(process.env.DELIVERY);
        try {
          new Webhook(secret).verify(body, headers);
        } catch (error) {
          if (!(error instanceof WebhookVerificationError)) throw error;
          process.exitCode = 3;
        }
    """
    delivery = json.dumps({"secret": secret, "headers": headers, "body": body})
    node = ["node", "--input-type=module", "--eval", program]
    status = subprocess.run(node, cwd=typescript, env={**os.environ, "DELIVERY": delivery}).returncode
    return {0: True, 3: False}[status]


def problems(fleet, typescript):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_port}"
    fleet.tidegate("webhook", "hosts", "add", host, "--allow-private")
    secret = fleet.tidegate("webhook", "secret", "rotate").split()[0]
    # The fleet's own node delivers nothing.
    fleet.start(["tidegate", "serve", "--listen", "127.0.0.1:0"], r"http://\S+")
    fleet.tidegate("submit", "direct", "--accepted", "--callback-url", f"http://{host}/end")
    if not Receiver.arrived.wait(60):
        return ["no delivery arrived"]
    headers, body = Receiver.delivery
    found = []
    for language, verifies in (
        ("Python", verifies_in_python),
        ("JavaScript", lambda *delivery: verifies_in_javascript(typescript, *delivery)),
    ):
        if not verifies(secret, headers, body):
            found.append(f"{language}: the delivery does not verify: {headers} {body}")
        if verifies(secret, headers, body + " "):
            found.append(f"{language}: another body verifies")
        if verifies("whsec_YW5vdGhlciBzZWNyZXQgb2YgdHdlbnR5LWZvdXI=", headers, body):
            found.append(f"{language}: another secret verifies")
    return found
