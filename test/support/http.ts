import { readFileSync } from 'node:fs';
import {
  Agent as PlainAgent,
  request as plainRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import { Agent, request } from 'node:https';
import { buffer } from 'node:stream/consumers';

/** A response of the server. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body as JSON, or an empty object if it is not a JSON object. */
  readonly json: JsonObject;
}

/** A JSON object, as a client sees it. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The parts of a request besides the verb and the path. */
export interface HttpParts {
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** A Buffer is sent unchanged, a list of Buffers in chunks, anything else as JSON. */
  readonly body?: unknown;
}

/** A plain HTTP/1.1 client with persistent connections, without knowledge of the protos. */
export class HttpClient {
  private readonly agent: Agent | PlainAgent;
  private readonly base: RequestOptions;
  private readonly open: (options: RequestOptions) => ClientRequest;

  /**
   * `address` is `host:port`. `ca` is the file of the CA, or undefined without TLS. `headers` are sent with every call.
   */
  constructor(
    address: string,
    ca: string | undefined,
    private readonly headers: Readonly<Record<string, string>> = {},
  ) {
    const { hostname, port } = new URL(`http://${address}`);
    this.agent =
      ca === undefined
        ? new PlainAgent({ keepAlive: true, maxSockets: 8 })
        : new Agent({ keepAlive: true, maxSockets: 8, ca: readFileSync(ca) });
    this.base = { host: hostname, port, agent: this.agent };
    this.open = ca === undefined ? plainRequest : request;
  }

  /** Makes one call and reads the complete response. */
  async send(verb: string, path: string, { headers = {}, body }: HttpParts = {}): Promise<HttpAnswer> {
    const pieces = listPieces(body);
    const length = Buffer.concat(pieces).length;
    // Node's own default omits a body of DELETE
    const framing = Array.isArray(body) ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(length) };
    const own = {
      ...this.headers,
      ...(body !== undefined && { 'content-type': 'application/json', ...framing }),
      ...headers,
    };
    const outgoing = this.open({ ...this.base, method: verb, path, headers: own });
    const response = new Promise<IncomingMessage>((resolve, reject) =>
      outgoing.on('response', resolve).on('error', reject),
    );
    for (const piece of pieces) outgoing.write(piece);
    outgoing.end();
    const answer = await response;
    const content = await buffer(answer);
    return { status: answer.statusCode ?? 0, headers: answer.headers, body: content, json: getObject(content) };
  }

  /** Makes a call that must succeed. Returns its JSON. */
  async call<Answer = JsonObject>(verb: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await this.send(verb, path, { body });
    if (answer.status >= 300) throw new Error(`${verb} ${path}: ${answer.status} ${answer.body.toString()}`);
    return answer.json as Answer;
  }

  async get(path: string, headers?: Readonly<Record<string, string>>): Promise<HttpAnswer> {
    return await this.send('GET', path, headers ? { headers } : {});
  }

  /** Closes the connections. */
  close(): void {
    this.agent.destroy();
  }
}

function listPieces(body: unknown): Buffer[] {
  if (body === undefined) return [];
  if (Buffer.isBuffer(body)) return [body];
  if (Array.isArray(body) && body.every((piece) => Buffer.isBuffer(piece))) return body;
  return [Buffer.from(JSON.stringify(body))];
}

function getObject(content: Buffer): JsonObject {
  try {
    const json = JSON.parse(content.toString()) as unknown;
    return typeof json === 'object' && json !== null && !Array.isArray(json) ? (json as JsonObject) : {};
  } catch {
    return {};
  }
}

/** An error of section 4 of the contract, as a client reads it. */
export interface HttpErrorInfo {
  readonly status: number;
  /** The machine-readable reason. */
  readonly code: string;
  /** The name of the gRPC status. */
  readonly grpc: string;
  readonly message: string;
  readonly requestId: string;
  /** The paths of the invalid fields. */
  readonly fields: readonly string[];
  readonly metadata: JsonObject;
}

/** Parses an error. Throws if a response does not have the shape of the contract. */
export function parseHttpError(answer: HttpAnswer): HttpErrorInfo {
  const { status, headers, json, body } = answer;
  const error = (json['error'] ?? {}) as Readonly<{
    code: string;
    message: string;
    status: string;
    requestId: string;
    details: readonly JsonObject[];
  }>;
  const detail = (name: string): JsonObject =>
    error.details?.find((one) => one['@type'] === `type.googleapis.com/google.rpc.${name}`) ?? {};
  const rules: readonly (readonly [what: string, holds: boolean])[] = [
    ['an object with error alone', Object.keys(json).join() === 'error'],
    ['an error with these fields', Object.keys(error).join() === 'code,message,status,requestId,details'],
    ['JSON by its content type', String(headers['content-type']).startsWith('application/json')],
    ['a code and a message', /^[a-z][a-z0-9_]*$/.test(error.code) && /./.test(error.message)],
    [
      'the id of the request in its header',
      typeof error.requestId === 'string' && error.requestId === headers['x-request-id'],
    ],
    ['an ErrorInfo', detail('ErrorInfo')['reason'] === error.code && detail('ErrorInfo')['domain'] === 'plantroom'],
  ];
  const broken = rules.filter(([, holds]) => !holds).map(([what]) => what);
  if (broken.length > 0)
    throw new Error(
      `the answer lacks ${broken.join(', ')}: ${status} ${JSON.stringify(headers)} ${body.toString().slice(0, 500)}`,
    );
  const fields = ((detail('BadRequest')['fieldViolations'] ?? []) as { field: string }[]).map(({ field }) => field);
  return {
    status,
    code: error.code,
    grpc: error.status,
    message: error.message,
    requestId: error.requestId,
    fields,
    metadata: (detail('ErrorInfo')['metadata'] ?? {}) as JsonObject,
  };
}
