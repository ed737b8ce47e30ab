import type { DescMessage } from '@bufbuild/protobuf';
import { validationFailed } from '../../kernel/errors';
import { PROTO_KEY } from '../../kernel/jsonValue';
import { encodedOf } from '../../kernel/repeated';
import type { MethodDefinition } from '../calls/definitions';
import { Undecodable } from '../calls/undecodable';
import type { Descriptors } from '../descriptors';
import { receiveLimit } from '../validation/receiveLimit';
import { messageTooLarge } from './transportFaults';

/** The same definition with a reader that never throws, and looks only into messages that are small enough for their method, and a writer that tells `onFault` why it could not write. */
export function guarded(definition: Readonly<Record<string, MethodDefinition>>, descriptors: Descriptors, onFault: (path: string, cause: unknown) => void): Record<string, MethodDefinition> {
  return Object.fromEntries(
    Object.entries(definition).map(([name, method]) => {
      const facts = descriptors.methods.get(method.path);
      const plain = facts !== undefined && facts.kind !== 'bidi_streaming' && holdsKeys(facts.request, new Set());
      const responseSerialize = (message: never): Buffer => {
        try {
          const encoded = encodedOf(message);
          return encoded ? (encoded.bytes ??= method.responseSerialize(message)) : method.responseSerialize(message);
        } catch (cause) {
          onFault(method.path, cause);
          throw cause;
        }
      };
      return [name, { ...method, requestDeserialize: safely(method.requestDeserialize, plain, facts ? receiveLimit(facts.request, descriptors) : 0), responseSerialize }];
    }),
  );
}

/** Whether a message can hold keys that the caller chooses: a Struct or a map. */
function holdsKeys(message: DescMessage, seen: Set<string>): boolean {
  if (seen.has(message.typeName)) return false;
  seen.add(message.typeName);
  return message.typeName === 'google.protobuf.Struct' || message.fields.some((field) => field.fieldKind === 'map' || (field.message !== undefined && holdsKeys(field.message, seen)));
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
