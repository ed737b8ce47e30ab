import type { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import type { CallOptions } from '../options';

/** A message type that ts-proto generates. */
export interface MessageType {
  encode(message: never, writer?: BinaryWriter): BinaryWriter;
  decode(input: BinaryReader | Uint8Array, length?: number): unknown;
  fromPartial(object: never): unknown;
}

/** A method in ts-proto's generic service definitions. */
export interface MethodDefinition {
  readonly name: string;
  readonly requestType: MessageType;
  readonly requestStream: boolean;
  readonly responseType: MessageType;
  readonly responseStream: boolean;
  /** The options of Plantroom's own protos, undecoded, by wire tag. */
  readonly options: { readonly _unknownFields?: Readonly<Record<number, readonly Uint8Array[]>> };
}

/** A service in ts-proto's generic service definitions. */
export interface ServiceDefinition {
  readonly name: string;
  readonly fullName: string;
  readonly methods: Readonly<Record<string, MethodDefinition>>;
}

type Builtin = Date | Function | string | number | boolean | undefined;

/** A request message. Every field may be omitted and then has its proto3 default value. */
export type Request<Message> = Message extends Builtin
  ? Message
  : Message extends Uint8Array
    ? Uint8Array
    : Message extends readonly (infer Item)[]
      ? readonly Request<Item>[]
      : Message extends { readonly $case: string }
        ? { readonly [Key in keyof Omit<Message, '$case'>]?: Request<Message[Key]> } & {
            readonly $case: Message['$case'];
          }
        : { readonly [Key in keyof Message]?: Request<Message[Key]> };

/** A method with one request and one response. Rejects with PlantroomError. */
export interface UnaryMethod<Req, Res> {
  (request: Request<Req>, options?: CallOptions): Promise<Res>;
}

/**
 * A method with one request and a stream of responses. The iteration throws PlantroomError. Leaving the loop cancels
 * the call.
 */
export interface ServerStreamMethod<Req, Res> {
  (request: Request<Req>, options?: CallOptions): AsyncIterableIterator<Res>;
}

/** A method with a stream of requests and one response. Rejects with PlantroomError. */
export interface ClientStreamMethod<Req, Res> {
  (requests: AsyncIterable<Request<Req>> | Iterable<Request<Req>>, options?: CallOptions): Promise<Res>;
}

type MessageOf<Type> = Type extends { decode(input: never, length?: never): infer Message } ? Message : never;

/** The client method for a method definition: unary, server stream or client stream. */
export type MethodOf<Definition extends MethodDefinition> = Definition['requestStream'] extends true
  ? ClientStreamMethod<MessageOf<Definition['requestType']>, MessageOf<Definition['responseType']>>
  : Definition['responseStream'] extends true
    ? ServerStreamMethod<MessageOf<Definition['requestType']>, MessageOf<Definition['responseType']>>
    : UnaryMethod<MessageOf<Definition['requestType']>, MessageOf<Definition['responseType']>>;

/** The client of a service: one function per method. */
export type ServiceClient<Definition extends ServiceDefinition> = {
  readonly [Name in keyof Definition['methods']]: MethodOf<Definition['methods'][Name]>;
};
