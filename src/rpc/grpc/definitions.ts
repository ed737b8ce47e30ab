import { validationFailed, type DomainError } from '../../kernel/errors';
import { PROTO_KEY } from '../../kernel/jsonValue';
import type { BidiHandler, ClientStreamHandler, ServerStreamHandler, UnaryHandler } from '../handlers';
import { messageTooLarge } from './transportFaults';

/** One method as ts-proto describes it. */
export interface MethodDefinition {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestDeserialize: (bytes: Buffer) => unknown;
  readonly responseSerialize: (message: never) => Buffer;
  readonly requestSerialize: (message: never) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => unknown;
}

/** A service definition of ts-proto, for example `SensorTemplateServiceService`. */
export type Definition = Readonly<Record<string, MethodDefinition>>;

/** The handlers that a service definition needs, by method name in lowerCamelCase. */
export type HandlersFor<D extends Definition> = { readonly [Method in keyof D]: HandlerFor<D[Method]> };

type HandlerFor<M> =
  M extends { requestStream: true; responseStream: true; requestDeserialize: (bytes: Buffer) => infer Request; responseSerialize: (message: infer Response) => Buffer }
    ? BidiHandler<Request, Response>
  : M extends { requestStream: false; responseStream: true; requestDeserialize: (bytes: Buffer) => infer Request; responseSerialize: (message: infer Response) => Buffer }
    ? ServerStreamHandler<Request, Response>
  : M extends { requestStream: false; responseStream: false; requestDeserialize: (bytes: Buffer) => infer Request; responseSerialize: (message: infer Response) => Buffer }
    ? UnaryHandler<Request, Response>
  : M extends { requestStream: true; responseStream: false; requestDeserialize: (bytes: Buffer) => infer Request; responseSerialize: (message: infer Response) => Buffer }
    ? ClientStreamHandler<Request, Response>
  : never;

/** What stands for a message whose bytes could not be read; the adapter answers it with `error`. */
export class Undecodable {
  constructor(readonly error: DomainError) {}
}

/** Reads a message of at most `most` bytes and never throws. `plain`: the message holds JSON or maps, and a key `__proto__` in it is refused. */
export function safely(deserialize: (bytes: Buffer) => unknown, plain: boolean, most: number): (bytes: Buffer) => unknown {
  return (bytes) => {
    if (bytes.length > most) return new Undecodable(messageTooLarge(bytes.length, most));
    if (plain && bytes.includes(PROTO_KEY)) return undecodable('a JSON value or map in the message holds the key `__proto__`; choose another name');
    try {
      return deserialize(bytes);
    } catch (cause) {
      return undecodable(faultOf(cause));
    }
  };
}

function undecodable(description: string): Undecodable {
  return new Undecodable(validationFailed([{ field: '', description }]));
}

function faultOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : '';
  if (text.includes('recursion limit')) return 'the message is nested too deep; a JSON value may have at most 32 levels';
  if (text.includes('SAFE_INTEGER')) return 'the message holds a 64-bit integer beyond 2^53 - 1; all numbers of this interface lie below it';
  return 'the bytes are not a message of the type that the method takes; encode it by the proto of this server';
}
