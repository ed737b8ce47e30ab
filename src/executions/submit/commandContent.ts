import type { CodecError, EncodeResult } from '../../codec';
import {
  type Command,
  ENCODED_TEMPLATE,
  type Encoder,
  formatEncoderError,
  renderDirectPayload,
  renderEncoderInput,
  runEncoder,
  type TemplateValues,
  type Variables,
} from '../../commands';
import { type ConnectorKind, isLorawan } from '../../connections';
import { DomainError, type Violation } from '../../kernel/errors';
import type { JsonValue } from '../../kernel/jsonValue';
import type { ExecutionPayload } from '../execution';

const RETRY_MS = 1000;

/** The content of a command: final JSON, or the input of its encoder. */
export type Content =
  | { readonly kind: 'json'; readonly value: JsonValue }
  | { readonly kind: 'input'; readonly data: JsonValue; readonly variables: Variables };

/** The payload and its port. Valid only if there are no violations. */
export interface Encoding {
  readonly payload: ExecutionPayload | undefined;
  readonly fPort: number | undefined;
  readonly violations: readonly Violation[];
}

/**
 * Renders the content of a command; `variables`: the device variables for its encoder. Valid only if there are no
 * violations.
 */
export function renderContent(
  command: Command,
  values: TemplateValues,
  variables: Variables,
): { content: Content | undefined; violations: readonly Violation[] } {
  if (command.mode === 'direct') {
    const { payload, violations } = renderDirectPayload(command, values);
    return { content: payload === undefined ? undefined : { kind: 'json', value: payload }, violations };
  }
  const { data, violations } = renderEncoderInput(command.encodedParamsTemplate, ENCODED_TEMPLATE, values);
  return { content: data === undefined ? undefined : { kind: 'input', data, variables }, violations };
}

/**
 * Creates the payload, with the command's encoder if needed. Throws `codec_queue_full`, `codec_unavailable`,
 * `encoder_interrupted`, `shutting_down`.
 */
export async function encodeContent(
  encoder: Encoder,
  kind: ConnectorKind | undefined,
  command: Command,
  content: Content,
  signal?: AbortSignal,
): Promise<Encoding> {
  const { organizationId: owner, customEncoder: script = '', fPort } = command;
  if (content.kind === 'json') return { payload: content, fPort, violations: [] };
  const { output, error, isServerFault } = await runEncoder(encoder, {
    owner,
    connectorType: kind,
    script,
    data: content.data,
    variables: content.variables,
    fPort,
    signal,
  });
  return error ? toFailedEncoding(error, isServerFault) : toEncoding(kind, output);
}

/**
 * Converts an error of an encoder to a violation. Throws `encoder_interrupted` if the encoder is not to blame, because
 * the same command may succeed at the next try.
 */
function toFailedEncoding(error: CodecError, isServerFault: boolean): Encoding {
  if (!isServerFault) return createInvalidEncoding('command.customEncoder', formatEncoderError(error));
  throw new DomainError(
    'unavailable',
    'encoder_interrupted',
    `the server interrupted the encoder (${error.message}); nothing was stored, try again`,
    { retryAfterMs: RETRY_MS },
  );
}

/** Converts the output of an encoder. On LoRaWAN, a missing port is a violation. */
function toEncoding(kind: ConnectorKind | undefined, output: EncodeResult['output']): Encoding {
  if (isLorawan(kind) && output?.fPort === undefined)
    return createInvalidEncoding(
      'command.fPort',
      'is required for LoRaWAN, and the encoder returned none; set it in the command, or return it from the encoder',
    );
  return { payload: output && { kind: 'bytes', bytes: output.bytes }, fPort: output?.fPort, violations: [] };
}

/** Returns an encoding without a payload and with one violation. */
function createInvalidEncoding(field: string, description: string): Encoding {
  return { payload: undefined, fPort: undefined, violations: [{ field, description }] };
}
