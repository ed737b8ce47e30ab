import { performCall } from './performCall';
import { messageFromJson, messageToJson } from './jsonMapping';
import { getMethod, getOwnMethods } from './serverMethods';
import type { Target } from './target';

/** JSON as the server sends it; its structure is known from the proto. */
export type Json = Readonly<Record<string, unknown>>;

const CALL_TIMEOUT_MS = 30_000;

/** Calls a server with JSON. It knows the methods of this program, so it needs no reflection. */
export class JsonClient {
  constructor(private readonly target: Target) {}

  /**
   * Calls a unary method, for example `ConnectionService/GetConnection`. `signal` cancels the call. Rejects with the
   * ServiceError of a failed call, as does watch(). Throws `validation_failed` for invalid JSON.
   */
  async call(name: string, request: Json, signal?: AbortSignal): Promise<Json> {
    let result: Json = {};
    await this.run(name, request, {
      deadline: Date.now() + CALL_TIMEOUT_MS,
      signal,
      onResponse: (response) => (result = response),
    });
    return result;
  }

  /** Reads a response stream until it ends or `signal` aborts. */
  async watch(name: string, request: Json, signal: AbortSignal, onResponse: (response: Json) => void): Promise<void> {
    await this.run(name, request, { deadline: undefined, signal, onResponse });
  }

  /** Makes a call, and passes each response to `onResponse` as JSON. */
  private async run(
    name: string,
    request: Json,
    {
      deadline,
      signal,
      onResponse,
    }: {
      readonly deadline: number | undefined;
      readonly signal: AbortSignal | undefined;
      readonly onResponse: (response: Json) => void;
    },
  ): Promise<void> {
    const method = getMethod(getOwnMethods(), name);
    const requests = [messageFromJson(method.input, request)];
    await performCall({
      target: this.target,
      method,
      requests,
      deadline,
      ...(signal && { signal }),
      onResponse: (response) => onResponse(messageToJson(method.output, response) as Json),
    });
  }
}
