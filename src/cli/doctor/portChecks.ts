import { createServer } from 'node:net';
import { findHostPort, hostPortText, isLoopback, type Config, type HostPort } from '../../config';
import { fail, ok, warn, type Finding } from './check';

/** Whether a server could listen where the configuration says. */
export async function freePorts({ grpc, http, metrics }: Config): Promise<Finding[]> {
  return [await port('gRPC port', 'PLANTROOM_GRPC_LISTEN', grpc.listen), await port('HTTP port', 'PLANTROOM_HTTP_LISTEN', http.listen), await port('metrics port', 'PLANTROOM_METRICS_LISTEN', metrics.listen)];
}

/** Whether anybody but this machine reaches what asks for no key. */
export function openMetrics({ metrics }: Config): Finding[] {
  const { host } = findHostPort(metrics.listen) ?? { host: 'localhost' };
  if (isLoopback(host)) return [];
  return [warn('metrics reach', `metrics are served on ${metrics.listen}, plain and without a key`, 'let only your Prometheus reach that port, or set PLANTROOM_METRICS_LISTEN=127.0.0.1:9464')];
}

async function port(name: string, variable: string, listen: string): Promise<Finding> {
  if (listen === 'off') return ok(name, 'switched off');
  const { host, port } = findHostPort(listen) as HostPort;
  const code = await new Promise<string | undefined>((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ host, port }, () => probe.close(() => resolve(undefined)));
  });
  if (code === undefined) return ok(name, `${listen} is free`);
  if (code === 'EADDRINUSE') return fail(name, `${listen} is used by another program`, `stop it, or set ${variable}=${hostPortText({ host, port: port + 1 })}`);
  if (code === 'EACCES') return fail(name, `this user may not listen on ${listen}`, 'choose a port above 1023');
  return fail(name, `cannot listen on ${listen} (${code})`, 'choose an address of this machine, or 0.0.0.0 for all');
}
