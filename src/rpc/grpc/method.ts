import type { DescMessage } from '@bufbuild/protobuf';
import { EmptySchema } from '@bufbuild/protobuf/wkt';
import { DomainError, throwIfAny, validationFailed, type Violation } from '../../kernel/errors';
import { enterWith } from '../admission';
import type { Descriptors, MethodFacts } from '../descriptors';
import type { BidiHandler, ClientStreamHandler, References, ServerStreamHandler, UnaryHandler } from '../handlers';
import type { OpenCall } from '../openCall';
import type { FieldRuleChecks, MessageCheck } from '../validation/fieldRules';
import { receiveLimit } from '../validation/receiveLimit';
import { safely, Undecodable, type MethodDefinition } from './definitions';

/** The handler of a method, whatever its kind; the kind is in the facts. */
export type AnyHandler = UnaryHandler<unknown, unknown> | ServerStreamHandler<unknown, unknown> | ClientStreamHandler<unknown, unknown> | BidiHandler<unknown, unknown>;

/** One method as the edge serves it: what the protos say, what checks a message, who answers. */
export class GrpcMethod {
  readonly isUnary: boolean;
  private readonly fieldRules: MessageCheck;
  private readonly ownCheck: ((request: unknown) => Violation[]) | undefined;
  private readonly references: References<unknown> | undefined;

  constructor(
    readonly facts: MethodFacts,
    checks: FieldRuleChecks,
    readonly handler: AnyHandler,
  ) {
    this.isUnary = facts.kind === 'unary';
    this.fieldRules = checks.of(facts.request);
    this.ownCheck = (handler as UnaryHandler<unknown, unknown>).check;
    this.references = (handler as UnaryHandler<unknown, unknown>).references;
  }

  /**
   * Takes a message in: its organization, then its fields. Throws organization_missing, organization_mismatch, validation_failed.
   * A promise is given only for a message that is refused after its references were looked at: it rejects.
   */
  accept(call: OpenCall, message: unknown): Promise<void> | undefined {
    if (message instanceof Undecodable) throw message.error;
    enterWith(call, this.facts, message);
    const violations: Violation[] = [];
    this.fieldRules(message as Record<string, unknown>, '', violations);
    if (this.ownCheck) violations.push(...beside(violations, this.ownCheck(message)));
    if (violations.length > 0 && this.references) return refuse(violations, this.references(message, call));
    throwIfAny(violations);
    return undefined;
  }
}

/** Those of the later violations whose field nothing was said about yet. */
function beside(violations: readonly Violation[], later: readonly Violation[]): Violation[] {
  const named = new Set(violations.map(({ field }) => field));
  return later.filter(({ field }) => !named.has(field));
}

async function refuse(violations: readonly Violation[], references: Promise<readonly Violation[]>): Promise<void> {
  const wrong = await references.catch((error: unknown) => {
    if (error instanceof DomainError) return []; // the device is not there, for example: what is known is said all the same
    throw error;
  });
  throw validationFailed([...violations, ...beside(violations, wrong)]);
}

/** Makes the methods of a service. Throws when the protos of the image do not know one of them, or it has no handler. */
export function methodsOf(descriptors: Descriptors, checks: FieldRuleChecks, definition: Readonly<Record<string, MethodDefinition>>, handlers: Readonly<Record<string, AnyHandler | undefined>>): GrpcMethod[] {
  return Object.entries(definition).map(([name, { path }]) => {
    const facts = descriptors.methods.get(path);
    const handler = handlers[name];
    if (!facts) throw new Error(`${path} is not in the descriptor image; build it again (npm run build)`);
    if (!handler) throw new Error(`${path} has no handler`);
    return new GrpcMethod(facts, checks, handler);
  });
}

/** A method that the server does not have: a call of it is answered and logged like any other. */
export function missingMethod(path: string, checks: FieldRuleChecks): GrpcMethod {
  const shown = path.slice(0, 200); // a caller can send far more
  return new GrpcMethod({ path: shown, service: '', scope: 'none', successStatus: 200, statusRules: [], content: 'json', routes: [], kind: 'unary', request: EmptySchema, response: EmptySchema, namesOrganization: false }, checks, nobody);
}

/** Throws method_unknown for a method that the server does not have. */
export function requireKnown({ handler, facts }: GrpcMethod): void {
  if (handler === nobody) throw new DomainError('unimplemented', 'method_unknown', `this server has no method ${facts.path}; look for the right one in its protos (grpc.reflection lists them)`);
}

function nobody(): never {
  throw new Error('the call of a method that does not exist came to a handler');
}

/** The same definition with a reader that never throws, and looks only into messages that are small enough for their method, and a writer that tells `onFault` why it could not write. */
export function guarded(definition: Readonly<Record<string, MethodDefinition>>, descriptors: Descriptors, onFault: (path: string, cause: unknown) => void): Record<string, MethodDefinition> {
  return Object.fromEntries(
    Object.entries(definition).map(([name, method]) => {
      const facts = descriptors.methods.get(method.path);
      const plain = facts !== undefined && facts.kind !== 'bidi_streaming' && holdsKeys(facts.request, new Set());
      const responseSerialize = (message: never): Buffer => {
        try {
          return method.responseSerialize(message);
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
