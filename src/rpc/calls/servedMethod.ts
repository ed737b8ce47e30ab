import { EmptySchema } from '@bufbuild/protobuf/wkt';
import type { Principal } from '../../kernel/principal';
import { DomainError, throwIfAny, validationFailed, type Violation } from '../../kernel/errors';
import { withoutKeys } from '../../kernel/keyText';
import { enterWith } from '../admission';
import type { Gate, NamedThings } from '../gate';
import type { Descriptors, MethodFacts } from '../descriptors';
import type { BidiHandler, ClientStreamHandler, References, ServerStreamHandler, UnaryHandler } from '../handlers';
import type { OpenCall } from '../openCall';
import type { FieldRuleChecks } from '../validation/fieldRules';
import type { MethodDefinition } from './definitions';
import { Undecodable } from './undecodable';

/** The handler of a method, whatever its kind; the kind is in the facts. */
export type AnyHandler = UnaryHandler<unknown, unknown> | ServerStreamHandler<unknown, unknown> | ClientStreamHandler<unknown, unknown> | BidiHandler<unknown, unknown>;

/** One method as the edge serves it: what the protos say, what checks a message, who answers. */
export class ServedMethod {
  readonly isUnary: boolean;
  private readonly ownCheck: ((request: unknown) => Violation[]) | undefined;
  private readonly references: References<unknown> | undefined;

  constructor(
    readonly facts: MethodFacts,
    private readonly checks: FieldRuleChecks,
    readonly handler: AnyHandler,
    private readonly gate?: Gate,
  ) {
    this.isUnary = facts.kind === 'unary';
    this.ownCheck = (handler as UnaryHandler<unknown, unknown>).check;
    this.references = (handler as UnaryHandler<unknown, unknown>).references;
  }

  /**
   * Takes a message in: its organization, then its fields. `found`: what is wrong with it already. Throws organization_missing,
   * organization_mismatch, validation_failed. A promise is given only for a message that is refused after its references were looked
   * at: it rejects.
   */
  accept(call: OpenCall, message: unknown, found: readonly Violation[] = NOTHING): Promise<void> | undefined {
    if (message instanceof Undecodable) throw message.error;
    call.request = message;
    enterWith(call, this.facts, message);
    const ofRules: Violation[] = [];
    this.checks.of(this.facts.request)(message as Record<string, unknown>, '', ofRules);
    const violations = found.length === 0 ? ofRules : [...found, ...outside(found, ofRules)];
    if (this.ownCheck) violations.push(...outside(violations, this.ownCheck(message)));
    if (violations.length > 0 && this.references) {
      const { references } = this;
      return refuse(violations, (async () => (await this.pass(call, message)) ?? (await references(message, call)))());
    }
    throwIfAny(violations);
    return undefined;
  }

  /** Looks whether what a limited key names lies within its reach; undefined where there is nothing to look at. Rejects as if it were not there. */
  pass({ principal }: OpenCall, message: unknown): Promise<undefined> | undefined {
    if (!(principal as Principal | undefined)?.reach || !this.gate) return undefined;
    const named = this.facts.limited.inside.map(({ path, thing }): NamedThings => ({ thing, ids: idsAt(message, path) })).filter(({ ids }) => ids.length > 0);
    return named.length === 0 ? undefined : this.gate.pass(principal, named).then(() => undefined);
  }
}

const NOTHING: readonly Violation[] = [];
const STEP = /[.[]/g;

/** Those of the later violations that lie in nothing that was refused: what was not read, or was cut to size, is empty now, and nothing is to be said of that. */
function outside(violations: readonly Violation[], later: readonly Violation[]): readonly Violation[] {
  if (violations.length === 0 || later.length === 0) return later;
  const named = new Set(violations.map(({ field }) => field));
  if (named.has('')) return [];
  return later.filter(({ field }) => !named.has(field) && !Array.from(field.matchAll(STEP)).some(({ index }) => named.has(field.slice(0, index))));
}

/** Those of the later violations whose field nothing was said about yet. */
function beside(violations: readonly Violation[], later: readonly Violation[]): Violation[] {
  const named = new Set(violations.map(({ field }) => field));
  return later.filter(({ field }) => !named.has(field));
}

/** The ids in a field of a message, or in a list of them. */
function idsAt(message: unknown, path: readonly string[]): string[] {
  const value = path.reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], message);
  return (Array.isArray(value) ? value : [value]).filter((id): id is string => typeof id === 'string' && id !== '');
}

async function refuse(violations: readonly Violation[], references: Promise<readonly Violation[]>): Promise<void> {
  const wrong = await references.catch((error: unknown) => {
    if (error instanceof DomainError) return []; // the device is not there, for example: what is known is said all the same
    throw error;
  });
  throw validationFailed([...violations, ...beside(violations, wrong)]);
}

/** Makes the methods of a service. Throws when the protos of the image do not know one of them, or it has no handler. */
export function methodsOf(
  { descriptors, checks, gate }: { readonly descriptors: Descriptors; readonly checks: FieldRuleChecks; readonly gate: Gate | undefined },
  definition: Readonly<Record<string, MethodDefinition>>,
  handlers: Readonly<Record<string, AnyHandler | undefined>>,
): ServedMethod[] {
  return Object.entries(definition).map(([name, { path }]) => {
    const facts = descriptors.methods.get(path);
    const handler = handlers[name];
    if (!facts) throw new Error(`${path} is not in the descriptor image; build it again (npm run build)`);
    if (!handler) throw new Error(`${path} has no handler`);
    return new ServedMethod(facts, checks, handler, gate);
  });
}

/** As much of an unknown path as is shown: a caller can send far more. */
const LONGEST_PATH = 200;

/** A method that the server does not have: a call of it is answered and logged like any other, without a key that somebody wrote into it. */
export function missingMethod(path: string, checks: FieldRuleChecks): ServedMethod {
  const shown = withoutKeys(path).slice(0, LONGEST_PATH);
  return new ServedMethod({ path: shown, service: '', scope: 'none', limited: { devices: 'open', commands: 'open', inside: [] }, adminOnly: false, changes: false, clearsUp: false, successStatus: 200, statusRules: [], notDone: undefined, content: 'json', routes: [], kind: 'unary', request: EmptySchema, response: EmptySchema, namesOrganization: false }, checks, nobody);
}

/** Whether the server has the method. */
export function isKnown({ handler }: ServedMethod): boolean {
  return handler !== nobody;
}

/** Throws method_unknown for a method that the server does not have. */
export function requireKnown(method: ServedMethod): void {
  const { facts } = method;
  if (!isKnown(method)) throw new DomainError('unimplemented', 'method_unknown', `this server has no method ${facts.path}; look for the right one in its protos (grpc.reflection lists them)`);
}

function nobody(): never {
  throw new Error('the call of a method that does not exist came to a handler');
}
