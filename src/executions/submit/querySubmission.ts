import { type Command, type Encoder, evaluateParams, paramsHash, type TemplateValues, type Variables } from '../../commands';
import { jsonEqual } from '../../kernel/canonicalJson';
import type { Violation } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import type { JsonObject } from '../../kernel/jsonValue';
import { type Content, encodeContent, type Encoding, renderContent } from './commandContent';
import type { ConnectorKind } from '../../connections';
import type { ExecutionPayload, FrozenQuery } from '../execution';

/** A query command that is rendered for its parent, and not encoded yet. */
export interface QueryDraft {
  readonly command: Command;
  readonly kind: ConnectorKind;
  readonly params: JsonObject;
  readonly tries: readonly { readonly executionId: string; readonly content: Content }[];
}

/** A part of a submission, or what is wrong with it: named by the parent's reference to its query command. */
export type QueryPart<Part> = { readonly part: Part; readonly violations: readonly [] } | { readonly part: undefined; readonly violations: readonly Violation[] };

/** How often a query is asked at most. */
const TRIES = 2;

/**
 * Renders a query command with those parameters of its parent that it declares, for each try: an execution of its own, whose id may stand
 * in its payload. `execution.triggerId` and `execution.enqueuedAt` are those of the parent, whose values these are.
 */
export function draftQuery(command: Command, kind: ConnectorKind, parent: TemplateValues, variables: Variables): QueryPart<QueryDraft> {
  const declared = Object.entries(parent.params).filter(([name]) => Object.hasOwn(command.paramsSchema, name));
  const { params, violations } = evaluateParams(command.paramsSchema, Object.fromEntries(declared));
  if (violations.length > 0) return wrong(command, violations);
  const rendered = Array.from({ length: TRIES }, () => {
    const executionId = newId();
    return { executionId, ...renderContent(command, { ...parent, params, execution: { ...parent.execution, id: executionId } }, variables) };
  });
  const tries = rendered.flatMap(({ executionId, content }) => (content ? [{ executionId, content }] : []));
  if (tries.length < TRIES) return wrong(command, rendered.find(({ content }) => !content)?.violations ?? []);
  return { part: { command, kind, params, tries }, violations: [] };
}

/** Encodes the tries of a query command; equal ones once. Throws as encodeContent. */
export async function freezeQuery(encoder: Encoder, { command, kind, params, tries }: QueryDraft, signal?: AbortSignal): Promise<QueryPart<FrozenQuery>> {
  const frozen: { executionId: string; payload: ExecutionPayload }[] = [];
  let last: { content: Content; encoding: Encoding } | undefined;
  for (const { executionId, content } of tries) {
    const encoding: Encoding = last && same(last.content, content) ? last.encoding : await encodeContent(encoder, kind, command, content, signal);
    if (!encoding.payload) return wrong(command, encoding.violations);
    if (last && last.encoding.fPort !== encoding.fPort) return wrong(command, [{ field: 'command.customEncoder', description: 'returns another fPort for each execution; return the same one' }]);
    last = { content, encoding };
    frozen.push({ executionId, payload: encoding.payload });
  }
  const { id: commandId, name: commandName, revision: commandRevision, confirmed = false, mqttTopic: topic = '' } = command;
  return { part: { commandId, commandName, commandRevision, params, paramsHash: paramsHash(params), kind, fPort: last?.encoding.fPort, confirmed, topic, tries: frozen }, violations: [] };
}

/** The variables are those of one device. */
function same(one: Content, other: Content): boolean {
  return one.kind === 'input' && other.kind === 'input' && jsonEqual(one.data, other.data);
}

/** What is wrong with a query command, as its parent's caller is told. */
export function ofQuery({ name }: Command, violations: readonly Violation[]): readonly Violation[] {
  return violations.map(({ field, description }) => ({ field: 'command.queryCommandId', description: `names the command ${JSON.stringify(name)}, whose ${field} ${description}` }));
}

function wrong(command: Command, violations: readonly Violation[]): { part: undefined; violations: readonly Violation[] } {
  return { part: undefined, violations: ofQuery(command, violations) };
}
