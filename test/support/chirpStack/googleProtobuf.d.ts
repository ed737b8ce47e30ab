// The part of google-protobuf that the simulated server uses. The package has no types.
declare module 'google-protobuf' {
  export class Message {
    serializeBinary(): Uint8Array;
  }
  export class Map<K, V> {
    set(key: K, value: V): this;
  }
}
declare module 'google-protobuf/google/protobuf/timestamp_pb' {
  import type { Message } from 'google-protobuf';

  export class Timestamp extends Message {
    setSeconds(value: number): void;
    setNanos(value: number): void;
    getSeconds(): number;
    getNanos(): number;
  }
}
declare module 'google-protobuf/google/protobuf/struct_pb' {
  import type { Message } from 'google-protobuf';

  export class Struct extends Message {
    static fromJavaScript(value: object): Struct;
    toJavaScript(): Record<string, unknown>;
  }
}
