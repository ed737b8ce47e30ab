import { exchange } from './exchange';
import { messageFromJson, messageToJson } from './jsonMapping';
import { getMethod, serverMethods, type ServerMethod } from './serverMethods';
import type { Target } from './target';

/** JSON as the server answers it: what is in it is known from the proto. */
export type Json = Readonly<Record<string, unknown>>;

const DEADLINE_MS = 30_000;

/** Calls a server with JSON, by what it says of itself. */
export class JsonClient {
  private constructor(
    private readonly target: Target,
    private readonly methods: readonly ServerMethod[],
  ) {}

  /** Learns the methods of the server. Rejects with the ServiceError of a failed call, here and below. */
  static async connect(target: Target): Promise<JsonClient> {
    return new JsonClient(target, await serverMethods(target));
  }

  /** Calls a unary method, for example `ConnectionService/GetConnection`. `signal` ends it with CANCELLED. Throws `validation_failed` for JSON that does not fit. */
  async call(name: string, request: Json, signal?: AbortSignal): Promise<Json> {
    let answered: Json = {};
    await this.run(name, request, Date.now() + DEADLINE_MS, signal, (answer) => (answered = answer));
    return answered;
  }

  /** Follows a stream of answers until it ends or `signal` aborts. */
  async watch(name: string, request: Json, signal: AbortSignal, onAnswer: (answer: Json) => void): Promise<void> {
    await this.run(name, request, undefined, signal, onAnswer);
  }

  private async run(name: string, request: Json, deadline: number | undefined, signal: AbortSignal | undefined, onAnswer: (answer: Json) => void): Promise<void> {
    const method = getMethod(this.methods, name);
    const requests = [messageFromJson(method.input, request)];
    await exchange({ target: this.target, method, requests, deadline, ...(signal && { signal }), onAnswer: (answer) => onAnswer(messageToJson(method.output, answer) as Json) });
  }
}
