import { createServer } from 'node:net';
import { Metadata } from '@grpc/grpc-js';
import { findHostPort, hostPortText, type Config, type HostPort } from '../../config';
import { findDataFolderHolder } from '../../database';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../gen/grpc/health/v1/health';
import { credentialsOf, endpointOfRun } from '../call/target';
import { findRunFile } from '../runFile';
import { fail, ok, warn, type Finding } from './check';

/** Whether a server has the data folder: then whether it answers, else whether its port is free. */
export async function server(config: Config): Promise<Finding[]> {
  const holder = findDataFolderHolder(config.data.dir);
  if (holder === undefined) return [ok('server', 'none runs on the data folder'), ...(await ports(config))];
  return [ok('server', `one runs on the data folder (process ${holder})`), await health(config)];
}

async function ports({ grpc, http }: Config): Promise<Finding[]> {
  const ofGrpc = await port('gRPC port', 'PLANTROOM_GRPC_LISTEN', grpc.listen);
  return http.listen === 'off' ? [ofGrpc, ok('HTTP port', 'switched off')] : [ofGrpc, await port('HTTP port', 'PLANTROOM_HTTP_LISTEN', http.listen)];
}

async function port(name: string, variable: string, listen: string): Promise<Finding> {
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

async function health(config: Config): Promise<Finding> {
  const run = findRunFile(config.data.dir);
  if (!run) return warn('health', 'the server does not say where it listens (run.json is missing)', 'it is starting or stopping; look again in a few seconds');
  const endpoint = endpointOfRun(run);
  const client = new HealthClient(endpoint.address, credentialsOf(endpoint));
  try {
    const status = await new Promise<HealthCheckResponse_ServingStatus>((resolve, reject) => {
      client.check({ service: '' }, new Metadata(), { deadline: Date.now() + 5000 }, (error, answer) => (error ? reject(error) : resolve(answer.status)));
    });
    const serving = status === HealthCheckResponse_ServingStatus.SERVING;
    return serving ? ok('health', `it serves on ${endpoint.address}`) : warn('health', 'it is not serving now', 'it is starting or stopping; look again in a few seconds');
  } catch (error) {
    return fail('health', `it does not answer on ${endpoint.address} (${(error as Error).message})`, 'look at its log');
  } finally {
    client.close();
  }
}
