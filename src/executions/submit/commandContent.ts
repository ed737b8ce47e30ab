import type { CodecError, EncodeResult } from '../../codec';
import { type Command, ENCODED_TEMPLATE, type Encoder, encoderProblem, renderDirect, renderEncoderInput, runEncoder, type TemplateValues, type Variables } from '../../commands';
import { type ConnectorKind, isLorawan } from '../../connections';
import { DomainError, type Violation } from '../../kernel/errors';
import type { JsonValue } from '../../kernel/jsonValue';
import type { ExecutionPayload } from '../execution';

const RETRY_MS = 1000;

/** What a command is to send: JSON as it is, or what its encoder is given. */
export type Content = { readonly kind: 'json'; readonly value: JsonValue } | { readonly kind: 'input'; readonly data: JsonValue; readonly variables: Variables };

/** What is sent, and to which port. Only good if there are no violations. */
export interface Encoding {
  readonly payload: ExecutionPayload | undefined;
  readonly fPort: number | undefined;
  readonly violations: readonly Violation[];
}

/** Renders what a command is to send; `variables`: those of the device, for its encoder. Only good if there are no violations. */
export function renderContent(command: Command, values: TemplateValues, variables: Variables): { content: Content | undefined; violations: readonly Violation[] } {
  if (command.mode === 'direct') {
    const { payload, violations } = renderDirect(command, values);
    return { content: payload === undefined ? undefined : { kind: 'json', value: payload }, violations };
  }
  const { data, violations } = renderEncoderInput(command.encodedParamsTemplate, ENCODED_TEMPLATE, values);
  return { content: data === undefined ? undefined : { kind: 'input', data, variables }, violations };
}

/** Makes what is sent, by the command's encoder where it needs one. Throws `sandbox_busy`, `sandbox_unavailable`, `encoder_interrupted`, `shutting_down`. */
export async function encodeContent(encoder: Encoder, kind: ConnectorKind | undefined, command: Command, content: Content, signal?: AbortSignal): Promise<Encoding> {
  const { organizationId: owner, customEncoder: script = '', fPort } = command;
  if (content.kind === 'json') return { payload: content, fPort, violations: [] };
  const { output, error, blameless } = await runEncoder(encoder, { owner, kind, script, data: content.data, variables: content.variables, fPort, signal });
  return error ? refused(error, blameless) : encodingOf(kind, output);
}

function refused(error: CodecError, blameless: boolean): Encoding {
  if (!blameless) return failed('command.customEncoder', encoderProblem(error));
  // It says nothing about the command, which may be just as good at the next try.
  throw new DomainError('unavailable', 'encoder_interrupted', `the encoder was interrupted through no fault of its own (${error.message}); nothing was stored, try again`, { retryAfterMs: RETRY_MS });
}

function encodingOf(kind: ConnectorKind | undefined, output: EncodeResult['output']): Encoding {
  if (isLorawan(kind) && output?.fPort === undefined) return failed('command.fPort', 'is missing, and the encoder returned none, but LoRaWAN needs one; give the command one, or return it');
  return { payload: output && { kind: 'bytes', bytes: output.bytes }, fPort: output?.fPort, violations: [] };
}

function failed(field: string, description: string): Encoding {
  return { payload: undefined, fPort: undefined, violations: [{ field, description }] };
}
