import { readFileSync } from 'node:fs';
import { Agent as PlainAgent, request as plainRequest, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import { Agent, request } from 'node:https';
import { buffer } from 'node:stream/consumers';

/** What a server answered. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body as JSON; an empty object where it is no JSON object. */
  readonly json: JsonObject;
}

/** A JSON object, as a client sees it. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** What is sent beside the verb and the path. */
export interface HttpParts {
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Sent as it is when it is a Buffer, in chunks when it is a list of Buffers, else as JSON. */
  readonly body?: unknown;
}

/** A plain HTTP/1.1 client with connections that are kept: it knows nothing of the protos. */
export class HttpClient {
  private readonly agent: Agent | PlainAgent;
  private readonly base: RequestOptions;
  private readonly open: (options: RequestOptions) => ClientRequest;

  /** `address`: `host:port`. `ca`: the file of the CA; undefined: no TLS. `headers` go with every call. */
  constructor(
    address: string,
    ca: string | undefined,
    private readonly headers: Readonly<Record<string, string>> = {},
  ) {
    const { hostname, port } = new URL(`http://${address}`);
    this.agent = ca === undefined ? new PlainAgent({ keepAlive: true, maxSockets: 8 }) : new Agent({ keepAlive: true, maxSockets: 8, ca: readFileSync(ca) });
    this.base = { host: hostname, port, agent: this.agent };
    this.open = ca === undefined ? plainRequest : request;
  }

  /** One call, to the end of its answer. */
  async send(verb: string, path: string, { headers = {}, body }: HttpParts = {}): Promise<HttpAnswer> {
    const pieces = piecesOf(body);
    const length = Buffer.concat(pieces).length;
    const framing = Array.isArray(body) ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(length) }; // Node's own guess forgets a body of DELETE
    const own = { ...this.headers, ...(body !== undefined && { 'content-type': 'application/json', ...framing }), ...headers };
    const asked = this.open({ ...this.base, method: verb, path, headers: own });
    const answered = new Promise<IncomingMessage>((resolve, reject) => asked.on('response', resolve).on('error', reject));
    for (const piece of pieces) asked.write(piece);
    asked.end();
    const answer = await answered;
    const content = await buffer(answer);
    return { status: answer.statusCode ?? 0, headers: answer.headers, body: content, json: objectOf(content) };
  }

  async get(path: string, headers?: Readonly<Record<string, string>>): Promise<HttpAnswer> {
    return await this.send('GET', path, headers ? { headers } : {});
  }

  /** Lets the connections go. */
  close(): void {
    this.agent.destroy();
  }
}

function piecesOf(body: unknown): Buffer[] {
  if (body === undefined) return [];
  if (Buffer.isBuffer(body)) return [body];
  if (Array.isArray(body) && body.every((piece) => Buffer.isBuffer(piece))) return body;
  return [Buffer.from(JSON.stringify(body))];
}

function objectOf(content: Buffer): JsonObject {
  try {
    const json = JSON.parse(content.toString()) as unknown;
    return typeof json === 'object' && json !== null && !Array.isArray(json) ? (json as JsonObject) : {};
  } catch {
    return {};
  }
}

/** An error of section 4 of the contract, as a client reads it. */
export interface SeenHttpError {
  readonly status: number;
  /** What is wrong, for a program. */
  readonly code: string;
  /** The name of the gRPC status. */
  readonly grpc: string;
  readonly message: string;
  readonly requestId: string;
  /** The paths of the wrong fields. */
  readonly fields: readonly string[];
  readonly metadata: JsonObject;
}

/** Takes an error apart. Throws where an answer is not in the shape of the contract. */
export function seenHttp(answer: HttpAnswer): SeenHttpError {
  const { status, headers, json, body } = answer;
  const error = (json['error'] ?? {}) as Readonly<{ code: string; message: string; status: string; requestId: string; details: readonly JsonObject[] }>;
  const detail = (name: string): JsonObject => error.details?.find((one) => one['@type'] === `type.googleapis.com/google.rpc.${name}`) ?? {};
  const rules: readonly (readonly [what: string, holds: boolean])[] = [
    ['an object with error alone', Object.keys(json).join() === 'error'],
    ['an error with these fields', Object.keys(error).join() === 'code,message,status,requestId,details'],
    ['JSON by its content type', String(headers['content-type']).startsWith('application/json')],
    ['a code and a message', /^[a-z][a-z0-9_]*$/.test(error.code) && /./.test(error.message)],
    ['the id of the request in its header', typeof error.requestId === 'string' && error.requestId === headers['x-request-id']],
    ['an ErrorInfo', detail('ErrorInfo')['reason'] === error.code && detail('ErrorInfo')['domain'] === 'plantroom'],
  ];
  const broken = rules.filter(([, holds]) => !holds).map(([what]) => what);
  if (broken.length > 0) throw new Error(`the answer lacks ${broken.join(', ')}: ${status} ${JSON.stringify(headers)} ${body.toString().slice(0, 500)}`);
  const fields = ((detail('BadRequest')['fieldViolations'] ?? []) as { field: string }[]).map(({ field }) => field);
  return { status, code: error.code, grpc: error.status, message: error.message, requestId: error.requestId, fields, metadata: (detail('ErrorInfo')['metadata'] ?? {}) as JsonObject };
}
