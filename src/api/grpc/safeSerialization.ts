import type { DescMessage } from '@bufbuild/protobuf';
import { validationFailed } from '../../kernel/errors';
import { PROTO_KEY } from '../../kernel/jsonValue';
import { getCachedEncoding } from '../../kernel/cacheableResponse';
import type { MethodDefinition } from '../pipeline/definitions';
import { DecodeFailure } from '../pipeline/decodeFailure';
import type { Descriptors } from '../descriptors/descriptors';
import { findInvalidText, createStrictReader } from '../validation/invalidText';
import { computeReceiveLimit } from '../validation/receiveLimit';
import { messageTooLarge } from './transportErrors';

/**
 * Wraps the (de)serializers of a service definition. Deserializers never throw, and they reject messages that are too
 * large for their method before decoding. Serializers report errors to `onError` and rethrow them.
 */
export function withSafeSerialization(
  definition: Readonly<Record<string, MethodDefinition>>,
  descriptors: Descriptors,
  onError: (path: string, cause: unknown) => void,
): Record<string, MethodDefinition> {
  return Object.fromEntries(
    Object.entries(definition).map(([name, method]) => {
      const descriptor = descriptors.methods.get(method.path);
      const canContainKeys =
        descriptor !== undefined && descriptor.kind !== 'bidi_streaming' && containsKeys(descriptor.request, new Set());
      const responseSerialize = (message: never): Buffer => {
        try {
          const encoded = getCachedEncoding(message);
          return encoded ? (encoded.bytes ??= method.responseSerialize(message)) : method.responseSerialize(message);
        } catch (cause) {
          onError(method.path, cause);
          throw cause;
        }
      };
      // Never 0 for a method that is served: Services.addService rejects methods without a descriptor.
      const maxBytes = descriptor ? computeReceiveLimit(descriptor.request, descriptors) : 0;
      const requestDeserialize = createSafeDeserializer(method, {
        canContainKeys,
        maxBytes,
        type: descriptor?.request,
      });
      return [name, { ...method, requestDeserialize, responseSerialize }];
    }),
  );
}

/**
 * Whether a message can contain keys that the client chooses: in a Struct (a JSON object) or a map. `visited` collects
 * the types that were examined, because types can be recursive.
 */
function containsKeys(message: DescMessage, visited: Set<string>): boolean {
  if (visited.has(message.typeName)) return false;
  visited.add(message.typeName);
  return (
    message.typeName === 'google.protobuf.Struct' ||
    message.fields.some(
      (field) => field.fieldKind === 'map' || (field.message !== undefined && containsKeys(field.message, visited)),
    )
  );
}

type Deserialize = MethodDefinition['requestDeserialize'];

/** What the deserializer must know about the request messages of a method. */
interface RequestLimits {
  /** Whether the message can contain JSON or maps; then it must not contain the key `__proto__`. */
  readonly canContainKeys: boolean;
  /** The maximum size, in bytes. */
  readonly maxBytes: number;
  readonly type: DescMessage | undefined;
}

/**
 * Creates a deserializer that returns a DecodeFailure instead of throwing. The key `__proto__`, which would change the
 * prototype of the decoded object, is rejected by its bytes before the message is decoded.
 */
function createSafeDeserializer(
  method: MethodDefinition,
  { canContainKeys, maxBytes, type }: RequestLimits,
): Deserialize {
  const { requestDeserialize, isOwnReader } = method;
  return (bytes) => {
    if (bytes.length > maxBytes) return new DecodeFailure(messageTooLarge(bytes.length, maxBytes));
    if (canContainKeys && bytes.includes(PROTO_KEY))
      return createDecodeFailure(
        'a JSON value or map in the message has the key `__proto__`, which is not allowed: use another name',
      );
    try {
      // ts-proto accepts a reader too.
      return requestDeserialize(isOwnReader ? bytes : (createStrictReader(bytes) as never));
    } catch (cause) {
      const isInvalidText = (cause as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA';
      const field = isInvalidText && type ? findInvalidField(bytes, type) : undefined;
      if (field === undefined) return createDecodeFailure(describeError(cause));
      return createDecodeFailure('must be valid UTF-8', field);
    }
  };
}

/** Returns the path of the string field with invalid UTF-8; undefined if the message has another error. */
function findInvalidField(bytes: Buffer, type: DescMessage): string | undefined {
  try {
    return findInvalidText(bytes, type);
  } catch {
    return undefined;
  }
}

function createDecodeFailure(description: string, field = ''): DecodeFailure {
  return new DecodeFailure(validationFailed([{ field, description }]));
}

/** Explains a decoding error to the client. The error of the decoder is recognised by its text. */
function describeError(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : '';
  if (text.includes('recursion limit'))
    return 'the message is nested too deeply: a JSON value may have at most 32 levels';
  if (text.includes('SAFE_INTEGER'))
    return 'the message has a 64-bit integer greater than 2^53 - 1: all numbers of this API are smaller';
  return 'the bytes are not a message of the request type of this method: encode it with the protos of this server';
}
