import { Client, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import type { ServerMethod } from './serverMethods';
import { metadataOf, type Target } from './target';

/** One call of a method of any kind. */
export interface Exchange {
  readonly target: Target;
  readonly method: ServerMethod;
  /** One, or any number for a stream of requests; as objects of jsonMapping.ts. */
  readonly requests: readonly object[];
  /** Undefined: none. */
  readonly deadline: number | undefined;
  /** Ends a stream of answers in peace; a call with one answer fails with CANCELLED. */
  readonly signal?: AbortSignal;
  /** Called with each answer as it comes. */
  readonly onAnswer: (answer: object) => void;
}

// More than any answer about readings holds.
const MOST_BYTES = 16 * 1024 * 1024;

/** Makes the call; resolves at its end, rejects with the ServiceError of a failed one. */
export async function exchange(call: Exchange): Promise<void> {
  const client = new Client(call.target.address, call.target.credentials, { 'grpc.max_receive_message_length': MOST_BYTES });
  try {
    await (call.method.definition.requestStream ? sendMany(client, call) : sendOne(client, call));
  } finally {
    client.close();
  }
}

function sendOne(client: Client, { target, method, requests, deadline, signal, onAnswer }: Exchange): Promise<void> {
  const { path, requestSerialize, responseDeserialize, responseStream } = method.definition;
  const options = deadline === undefined ? {} : { deadline };
  return new Promise((resolve, reject) => {
    const [request = {}] = requests;
    if (responseStream) follow(client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadataOf(target), options), signal, onAnswer, resolve, reject);
    else cancelBy(signal, client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadataOf(target), options, lastAnswer(onAnswer, resolve, reject)));
  });
}

function sendMany(client: Client, { target, method, requests, deadline, onAnswer }: Exchange): Promise<void> {
  const { path, requestSerialize, responseDeserialize, responseStream } = method.definition;
  const options = deadline === undefined ? {} : { deadline };
  return new Promise((resolve, reject) => {
    if (!responseStream) return writeAll(requests, client.makeClientStreamRequest(path, requestSerialize, responseDeserialize, metadataOf(target), options, lastAnswer(onAnswer, resolve, reject)));
    const call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadataOf(target), options);
    call.on('data', onAnswer).on('error', reject).on('end', resolve);
    writeAll(requests, call);
  });
}

function writeAll(requests: readonly object[], call: { write(request: object): unknown; end(): unknown }): void {
  for (const request of requests) call.write(request);
  call.end();
}

function follow(call: ClientReadableStream<object>, signal: AbortSignal | undefined, onAnswer: (answer: object) => void, resolve: () => void, reject: (error: Error) => void): void {
  cancelBy(signal, call);
  call
    .on('data', onAnswer)
    .on('end', resolve)
    .on('error', (error) => (signal?.aborted ? resolve() : reject(error)));
}

function cancelBy(signal: AbortSignal | undefined, call: { cancel(): void; on(event: 'status', listener: () => void): unknown }): void {
  const cancel = (): void => call.cancel();
  if (signal?.aborted) return cancel();
  signal?.addEventListener('abort', cancel, { once: true });
  call.on('status', () => signal?.removeEventListener('abort', cancel));
}

function lastAnswer(onAnswer: (answer: object) => void, resolve: () => void, reject: (error: Error) => void): (error: ServiceError | null, answer?: object) => void {
  return (error, answer) => {
    if (error) return reject(error);
    if (answer) onAnswer(answer);
    resolve();
  };
}
