import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { readFileSync } from 'node:fs';
import { connect, type ClientHttp2Session } from 'node:http2';
import { headers, parseError } from '../support/edge';
import { as, type TestApp } from '../support/testApp';

/** Streams that stay open, as each protocol names them. */
export const WATCHES = [
  ['/actuator_command.v2.ActuatorCommandService/WatchExecutions', '/api/v2/actuator-executions:watch'],
  ['/connection.ConnectionService/WatchConnectionStatus', '/api/v2/connections:watchStatus'],
  ['/sensorquery.v1.SensorQueryService/StreamReadings', '/api/v2/readings:stream'],
  ['/dashboard.v2.DashboardService/WatchDashboards', '/api/v2/dashboards:watch'],
] as const;

/** One open stream. */
export interface OpenStream {
  /** The gRPC path, for both protocols. */
  readonly method: string;
  /** The reason for the end as its caller receives it. */
  readonly ended: Promise<string>;
  /** Undefined while it is open. */
  readonly reason: () => string | undefined;
}

/** Opens streams of a server over both protocols. */
export class StreamOpener {
  private readonly grpc: Client;
  private readonly http: ClientHttp2Session;

  constructor(private readonly server: TestApp) {
    const { addresses, ca } = server.app;
    this.grpc = new Client(
      addresses.grpc.replace('127.0.0.1', 'localhost'),
      credentials.createSsl(readFileSync(ca as string)),
      { 'grpc.enable_retries': 0 },
    );
    this.http = connect(`https://${(addresses.http as string).replace('127.0.0.1', 'localhost')}`, {
      ca: readFileSync(ca as string),
    });
  }

  /** Opens this many streams, alternating methods and protocols; resolves when each has received its first message. */
  async open(key: string, count: number): Promise<OpenStream[]> {
    return await Promise.all(
      Array.from({ length: count }, async (_, at) => {
        const [method, path] = WATCHES[(at >> 1) % WATCHES.length] as (typeof WATCHES)[number];
        return await (at % 2 === 0 ? this.overGrpc(method, key) : this.overHttp(method, path, key));
      }),
    );
  }

  /** Closes the connections. */
  close(): void {
    this.grpc.close();
    this.http.destroy();
  }

  private async overGrpc(method: string, key: string): Promise<OpenStream> {
    const stream = this.grpc.makeServerStreamRequest(
      method,
      (bytes: Buffer) => bytes,
      (bytes: Buffer) => bytes,
      Buffer.alloc(0),
      headers(as(key, this.server.organizationId)),
    );
    const ended = new Promise<string>((resolve) =>
      stream
        .on('error', (error: ServiceError) => resolve(parseError(error).reason ?? error.message))
        .on('end', () => resolve('OK')),
    );
    await Promise.race([new Promise((resolve) => stream.once('data', resolve)), ended]);
    stream.resume();
    return openStream(method, ended);
  }

  private async overHttp(method: string, path: string, key: string): Promise<OpenStream> {
    const stream = this.http.request({ ':path': path, ...as(key, this.server.organizationId) });
    let text = '';
    const ended = new Promise<string>((resolve) =>
      stream.on('end', () => resolve(reasonIn(text))).on('error', (error) => resolve(String(error))),
    );
    stream.on('data', (bytes: Buffer) => (text += bytes.toString()));
    await Promise.race([new Promise((resolve) => stream.once('data', resolve)), ended]);
    return openStream(method, ended);
  }
}

function openStream(method: string, ended: Promise<string>): OpenStream {
  let reason: string | undefined;
  const known = ended.then((found) => (reason = found));
  return { method, ended: known, reason: () => reason };
}

function reasonIn(text: string): string {
  const last = text.trimEnd().split('\n').at(-1) ?? '';
  return (JSON.parse(last === '' ? '{}' : last) as { error?: { code: string } }).error?.code ?? 'OK';
}
