"""A collector of OpenTelemetry's protocol behind its public packages, for crates/cli/tests/it/otlp.rs.

usage: otlp_collector.py grpc|http FILE [CERTIFICATE KEY]

Serves TLS if a certificate and its key are given. Prints its port, then serves until its standard input ends. Every export is decoded with the published messages and
written to FILE as a line of JSON: the kind, the headers, and the message. The first export of each kind is answered as
by a server that is busy.
"""

import json
import ssl
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

lock = threading.Lock()
seen = set()
file = open(sys.argv[2], "a")


def is_first(kind):
    with lock:
        first = kind not in seen
        seen.add(kind)
        return first


def keep(kind, headers, message):
    line = {"kind": kind, "headers": headers, "message": MessageToDict(message)}
    with lock:
        file.write(json.dumps(line) + "\n")
        file.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kinds = {
        "/v1/traces": ("traces", trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse),
        "/v1/logs": ("logs", logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse),
        "/v1/metrics": ("metrics", metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse),
    }

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        kind, request, response = self.kinds[self.path]
        if is_first(kind):
            return self.answer(503, b"")
        keep(kind, {name.lower(): value for name, value in self.headers.items()}, request.FromString(body))
        self.answer(200, response().SerializeToString())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def service(kind, base, response):
    class Service(base):
        def Export(self, request, context):
            if is_first(kind):
                context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
            keep(kind, dict(context.invocation_metadata()), request)
            return response()

    return Service()


def serve_grpc():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(
        service("traces", trace_service_pb2_grpc.TraceServiceServicer, trace_service_pb2.ExportTraceServiceResponse), server
    )
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(
        service("logs", logs_service_pb2_grpc.LogsServiceServicer, logs_service_pb2.ExportLogsServiceResponse), server
    )
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(
        service("metrics", metrics_service_pb2_grpc.MetricsServiceServicer, metrics_service_pb2.ExportMetricsServiceResponse), server
    )
    if tls:
        certificate, key = (open(name, "rb").read() for name in tls)
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return port, server


def serve_http():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1], server


tls = sys.argv[3:5]

# A server that nobody holds is stopped.
port, server = serve_grpc() if sys.argv[1] == "grpc" else serve_http()
print(port, flush=True)
sys.stdin.read()
