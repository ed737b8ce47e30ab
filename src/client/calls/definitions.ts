import type { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import type { CallOptions } from '../options';

/** A message type as ts-proto generates it. */
export interface MessageType {
  encode(message: never, writer?: BinaryWriter): BinaryWriter;
  decode(input: BinaryReader | Uint8Array, length?: number): unknown;
  fromPartial(object: never): unknown;
}

/** A method as ts-proto's generic definitions describe it. */
export interface MethodDefinition {
  readonly name: string;
  readonly requestType: MessageType;
  readonly requestStream: boolean;
  readonly responseType: MessageType;
  readonly responseStream: boolean;
  /** Options of our own protos stand here by their wire tag, undecoded. */
  readonly options: { readonly _unknownFields?: Readonly<Record<number, readonly Uint8Array[]>> };
}

/** A service as ts-proto's generic definitions describe it. */
export interface ServiceDefinition {
  readonly name: string;
  readonly fullName: string;
  readonly methods: Readonly<Record<string, MethodDefinition>>;
}

type Builtin = Date | Function | string | number | boolean | undefined;

/** A request: every field may be left out, and then has the value that proto3 gives it. */
export type Request<Message> = Message extends Builtin
  ? Message
  : Message extends Uint8Array
    ? Uint8Array
    : Message extends readonly (infer Item)[]
      ? readonly Request<Item>[]
      : Message extends { readonly $case: string }
        ? { readonly [Key in keyof Omit<Message, '$case'>]?: Request<Message[Key]> } & { readonly $case: Message['$case'] }
        : { readonly [Key in keyof Message]?: Request<Message[Key]> };

/** One request, one response. Rejects with PlantroomError. */
export interface UnaryMethod<Req, Res> {
  (request: Request<Req>, options?: CallOptions): Promise<Res>;
}

/** One request, many responses. What goes wrong is thrown as PlantroomError by the iteration; leaving the loop ends the call. */
export interface ServerStreamMethod<Req, Res> {
  (request: Request<Req>, options?: CallOptions): AsyncIterableIterator<Res>;
}

/** Many requests, one response. Rejects with PlantroomError. */
export interface ClientStreamMethod<Req, Res> {
  (requests: AsyncIterable<Request<Req>> | Iterable<Request<Req>>, options?: CallOptions): Promise<Res>;
}

type MessageOf<Type> = Type extends { decode(input: never, length?: never): infer Message } ? Message : never;

/** A method by its kind. */
export type MethodOf<Definition extends MethodDefinition> = Definition['requestStream'] extends true
  ? ClientStreamMethod<MessageOf<Definition['requestType']>, MessageOf<Definition['responseType']>>
  : Definition['responseStream'] extends true
    ? ServerStreamMethod<MessageOf<Definition['requestType']>, MessageOf<Definition['responseType']>>
    : UnaryMethod<MessageOf<Definition['requestType']>, MessageOf<Definition['responseType']>>;

/** A service as it is called. */
export type ServiceClient<Definition extends ServiceDefinition> = { readonly [Name in keyof Definition['methods']]: MethodOf<Definition['methods'][Name]> };
