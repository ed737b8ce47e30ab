import {
  type Command,
  type Encoder,
  evaluateParams,
  hashParams,
  type TemplateValues,
  type Variables,
} from '../../commands';
import { isJsonEqual } from '../../kernel/canonicalJson';
import type { Violation } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import type { JsonObject } from '../../kernel/jsonValue';
import { type Content, encodeContent, type Encoding, renderContent } from './commandContent';
import type { ConnectorKind } from '../../connections';
import type { ExecutionPayload, FrozenQuery } from '../execution';

/**
 * A query command that is rendered for its parent, but not encoded yet. The parent is the command after which the query
 * is sent.
 */
export interface QueryDraft {
  readonly command: Command;
  readonly kind: ConnectorKind;
  readonly params: JsonObject;
  readonly tries: readonly { readonly executionId: string; readonly content: Content }[];
}

/** The query in a submission, or its violations, at the parent's field `queryCommandId`. */
type QueryOrViolations<Part> =
  | { readonly query: Part; readonly violations: readonly [] }
  | { readonly query: undefined; readonly violations: readonly Violation[] };

/** The maximum number of tries of a query. */
const MAX_TRIES = 2;

/**
 * Renders a query command once for each try, with those parameters of its parent that the query command declares. Each
 * try is an execution of its own, whose id may be part of its payload. `execution.triggerId` and `execution.enqueuedAt`
 * are those of the parent.
 */
export function draftQuery(
  command: Command,
  kind: ConnectorKind,
  parent: TemplateValues,
  variables: Variables,
): QueryOrViolations<QueryDraft> {
  const declaredParams = Object.entries(parent.params).filter(([name]) => Object.hasOwn(command.paramsSchema, name));
  const { params, violations } = evaluateParams(command.paramsSchema, Object.fromEntries(declaredParams));
  if (violations.length > 0) return invalidQuery(command, violations);
  const rendered = Array.from({ length: MAX_TRIES }, () => {
    const executionId = newId();
    return {
      executionId,
      ...renderContent(command, { ...parent, params, execution: { ...parent.execution, id: executionId } }, variables),
    };
  });
  const tries = rendered.flatMap(({ executionId, content }) => (content ? [{ executionId, content }] : []));
  // If a try has no content, its violations say why.
  if (tries.length < MAX_TRIES)
    return invalidQuery(command, rendered.find(({ content }) => !content)?.violations ?? []);
  return { query: { command, kind, params, tries }, violations: [] };
}

/**
 * Encodes the tries of a query command. A try with the same content as the previous one is not encoded again. All tries
 * must have the same port, because it is stored once. Throws like encodeContent.
 */
export async function encodeQuery(
  encoder: Encoder,
  { command, kind, params, tries }: QueryDraft,
  signal?: AbortSignal,
): Promise<QueryOrViolations<FrozenQuery>> {
  const frozen: { executionId: string; payload: ExecutionPayload }[] = [];
  let previous: { content: Content; encoding: Encoding } | undefined;
  for (const { executionId, content } of tries) {
    const encoding: Encoding =
      previous && hasSameInput(previous.content, content)
        ? previous.encoding
        : await encodeContent(encoder, kind, command, content, signal);
    if (!encoding.payload) return invalidQuery(command, encoding.violations);
    if (previous && previous.encoding.fPort !== encoding.fPort)
      return invalidQuery(command, [
        {
          field: 'command.customEncoder',
          description: 'returns another fPort for each execution; return the same one',
        },
      ]);
    previous = { content, encoding };
    frozen.push({ executionId, payload: encoding.payload });
  }
  const {
    id: commandId,
    name: commandName,
    revision: commandRevision,
    confirmed = false,
    mqttTopic: topic = '',
  } = command;
  return {
    query: {
      commandId,
      commandName,
      commandRevision,
      params,
      paramsHash: hashParams(params),
      kind,
      fPort: previous?.encoding.fPort,
      confirmed,
      topic,
      askedSensorIds: command.expectedSensorStates.map(({ sensorId }) => sensorId),
      tries: frozen,
    },
    violations: [],
  };
}

/** Whether an encoder receives the same data. The variables are the same too, because both belong to one device. */
function hasSameInput(previous: Content, next: Content): boolean {
  return previous.kind === 'input' && next.kind === 'input' && isJsonEqual(previous.data, next.data);
}

/**
 * Converts violations of a query command to violations of the command that runs it afterwards (its parent), at the
 * parent's field `queryCommandId`.
 */
export function toQueryCommandViolations({ name }: Command, violations: readonly Violation[]): readonly Violation[] {
  return violations.map(({ field, description }) => ({
    field: 'command.queryCommandId',
    description: `names the command ${JSON.stringify(name)}, whose ${field} ${description}`,
  }));
}

/** Returns the violations of a query command instead of the query. */
function invalidQuery(
  command: Command,
  violations: readonly Violation[],
): { query: undefined; violations: readonly Violation[] } {
  return { query: undefined, violations: toQueryCommandViolations(command, violations) };
}
