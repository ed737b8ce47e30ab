import type { BidiHandler, ClientStreamHandler, ServerStreamHandler, UnaryHandler } from './handlers';

/** One method of a ts-proto service definition. */
export interface MethodDefinition {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestDeserialize: (bytes: Buffer) => unknown;
  /** Whether `requestDeserialize` requires the bytes and handles invalid UTF-8. Generated ones also accept a reader. */
  readonly isOwnReader?: boolean;
  readonly responseSerialize: (message: never) => Buffer;
  readonly requestSerialize: (message: never) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => unknown;
}

/** A service definition of ts-proto, for example `SensorTemplateServiceService`. */
export type Definition = Readonly<Record<string, MethodDefinition>>;

/** The handlers that a service definition needs, by method name in lowerCamelCase. */
export type HandlersFor<D extends Definition> = { readonly [Method in keyof D]: HandlerFor<D[Method]> };

type HandlerFor<M> = M extends {
  requestStream: true;
  responseStream: true;
  requestDeserialize: (bytes: Buffer) => infer Request;
  responseSerialize: (message: infer Response) => Buffer;
}
  ? BidiHandler<Request, Response>
  : M extends {
        requestStream: false;
        responseStream: true;
        requestDeserialize: (bytes: Buffer) => infer Request;
        responseSerialize: (message: infer Response) => Buffer;
      }
    ? ServerStreamHandler<Request, Response>
    : M extends {
          requestStream: false;
          responseStream: false;
          requestDeserialize: (bytes: Buffer) => infer Request;
          responseSerialize: (message: infer Response) => Buffer;
        }
      ? UnaryHandler<Request, Response>
      : M extends {
            requestStream: true;
            responseStream: false;
            requestDeserialize: (bytes: Buffer) => infer Request;
            responseSerialize: (message: infer Response) => Buffer;
          }
        ? ClientStreamHandler<Request, Response>
        : never;
