import { createServer } from 'node:net';
import { parseHostPort, formatHostPort, isLoopback, type Config, type HostPort } from '../../config';
import { fail, ok, warn, type Finding } from './check';

/** Checks that a server could listen on the configured ports. */
export async function checkPorts({ grpc, http, metrics }: Config): Promise<Finding[]> {
  return [
    await checkPort('gRPC port', 'PLANTROOM_GRPC_LISTEN', grpc.listen),
    await checkPort('HTTP port', 'PLANTROOM_HTTP_LISTEN', http.listen),
    await checkPort('metrics port', 'PLANTROOM_METRICS_LISTEN', metrics.listen),
  ];
}

/** Warns if other machines can reach the metrics port, which needs no API key. */
export function checkMetricsAccess({ metrics }: Config): Finding[] {
  const { host } = parseHostPort(metrics.listen) ?? { host: 'localhost' };
  if (isLoopback(host)) return [];
  return [
    warn(
      'metrics reach',
      `metrics are served on ${metrics.listen} without TLS and without an API key`,
      'allow only your Prometheus server to reach that port, or set PLANTROOM_METRICS_LISTEN=127.0.0.1:9464',
    ),
  ];
}

/** Checks that the address is free by listening on it for a moment. `variable`: the setting of the address. */
async function checkPort(name: string, variable: string, listen: string): Promise<Finding> {
  if (listen === 'off') return ok(name, 'disabled');
  const { host, port } = parseHostPort(listen) as HostPort;
  const errorCode = await new Promise<string | undefined>((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ host, port }, () => probe.close(() => resolve(undefined)));
  });
  if (errorCode === undefined) return ok(name, `${listen} is free`);
  if (errorCode === 'EADDRINUSE')
    return fail(
      name,
      `${listen} is in use by another program`,
      `stop that program, or set ${variable}=${formatHostPort({ host, port: port + 1 })}`,
    );
  if (errorCode === 'EACCES')
    return fail(name, `this user is not allowed to listen on ${listen}`, 'choose a port above 1023');
  return fail(
    name,
    `cannot listen on ${listen} (${errorCode})`,
    `set ${variable} to an address of this machine, or to 0.0.0.0 for all addresses`,
  );
}
