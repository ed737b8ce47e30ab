import { Client, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import type { ServerMethod } from './serverMethods';
import { getMetadata, type Target } from './target';

/** One call of a method of any type. */
interface MethodCall {
  readonly target: Target;
  readonly method: ServerMethod;
  /** The requests as objects of jsonMapping.ts: one, or any number for a request stream. */
  readonly requests: readonly object[];
  /** Undefined: no deadline. */
  readonly deadline: number | undefined;
  /** Ends a response stream gracefully; a unary call fails with CANCELLED. */
  readonly signal?: AbortSignal;
  /** Called with each response. */
  readonly onResponse: (response: object) => void;
}

// Larger than any response with readings.
const MAX_RESPONSE_BYTES = 16 * 1024 * 1024;

/** Makes the call. Resolves when it has ended; rejects with the ServiceError of a failed call. */
export async function performCall(call: MethodCall): Promise<void> {
  const client = new Client(call.target.address, call.target.credentials, {
    'grpc.max_receive_message_length': MAX_RESPONSE_BYTES,
  });
  try {
    await (call.method.definition.requestStream
      ? callWithRequestStream(client, call)
      : callWithOneRequest(client, call));
  } finally {
    client.close();
  }
}

/** Makes a unary call, or one with a stream of responses. */
function callWithOneRequest(
  client: Client,
  { target, method, requests, deadline, signal, onResponse }: MethodCall,
): Promise<void> {
  const { path, requestSerialize, responseDeserialize, responseStream } = method.definition;
  const options = deadline === undefined ? {} : { deadline };
  return new Promise((resolve, reject) => {
    const [request = {}] = requests;
    if (responseStream)
      readResponses(
        client.makeServerStreamRequest(
          path,
          requestSerialize,
          responseDeserialize,
          request,
          getMetadata(target),
          options,
        ),
        { signal, onResponse, resolve, reject },
      );
    else
      cancelOnAbort(
        signal,
        client.makeUnaryRequest(
          path,
          requestSerialize,
          responseDeserialize,
          request,
          getMetadata(target),
          options,
          createUnaryCallback({ onResponse, resolve, reject }),
        ),
      );
  });
}

/** Makes a call with a stream of requests, and with one response or a stream of them. */
function callWithRequestStream(
  client: Client,
  { target, method, requests, deadline, onResponse }: MethodCall,
): Promise<void> {
  const { path, requestSerialize, responseDeserialize, responseStream } = method.definition;
  const options = deadline === undefined ? {} : { deadline };
  return new Promise((resolve, reject) => {
    if (!responseStream)
      return writeRequests(
        requests,
        client.makeClientStreamRequest(
          path,
          requestSerialize,
          responseDeserialize,
          getMetadata(target),
          options,
          createUnaryCallback({ onResponse, resolve, reject }),
        ),
      );
    const call = client.makeBidiStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
      getMetadata(target),
      options,
    );
    call.on('data', onResponse).on('error', reject).on('end', resolve);
    writeRequests(requests, call);
  });
}

function writeRequests(requests: readonly object[], call: { write(request: object): unknown; end(): unknown }): void {
  for (const request of requests) call.write(request);
  call.end();
}

/** What to do with each response, and how to settle the promise of the call. */
interface CallCallbacks {
  readonly onResponse: (response: object) => void;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Passes on the responses of a stream. An abort of the signal ends it without an error. */
function readResponses(
  call: ClientReadableStream<object>,
  { signal, onResponse, resolve, reject }: CallCallbacks & { readonly signal: AbortSignal | undefined },
): void {
  cancelOnAbort(signal, call);
  call
    .on('data', onResponse)
    .on('end', resolve)
    .on('error', (error) => (signal?.aborted ? resolve() : reject(error)));
}

/**
 * Cancels the call when the signal aborts. Stops listening when the call has its status, that is, when it has ended.
 */
function cancelOnAbort(
  signal: AbortSignal | undefined,
  call: { cancel(): void; on(event: 'status', listener: () => void): unknown },
): void {
  const cancel = (): void => call.cancel();
  if (signal?.aborted) return cancel();
  signal?.addEventListener('abort', cancel, { once: true });
  call.on('status', () => signal?.removeEventListener('abort', cancel));
}

/** Creates the callback that gRPC calls once with the only response or the error. */
function createUnaryCallback({
  onResponse,
  resolve,
  reject,
}: CallCallbacks): (error: ServiceError | null, response?: object) => void {
  return (error, response) => {
    if (error) return reject(error);
    if (response) onResponse(response);
    resolve();
  };
}
