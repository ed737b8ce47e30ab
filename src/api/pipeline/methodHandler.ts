import { EmptySchema } from '@bufbuild/protobuf/wkt';
import type { Principal } from '../../kernel/principal';
import { DomainError, throwIfAny, validationFailed, type Violation } from '../../kernel/errors';
import { redactApiKeys } from '../../kernel/redactApiKeys';
import type { NamedResources } from '../../kernel/resourceScope';
import { bindOrganization } from './admission';
import type { Gate } from './gate';
import type { Descriptors, MethodDescriptor } from '../descriptors/descriptors';
import type { BidiHandler, ClientStreamHandler, References, ServerStreamHandler, UnaryHandler } from './handlers';
import type { ActiveCall } from './activeCall';
import type { FieldRuleChecks } from '../validation/fieldRuleChecks';
import type { MethodDefinition } from './definitions';
import { DecodeFailure } from './decodeFailure';

/** The handler of a method of any kind; `descriptor.kind` is the kind. */
export type AnyHandler =
  | UnaryHandler<unknown, unknown>
  | ServerStreamHandler<unknown, unknown>
  | ClientStreamHandler<unknown, unknown>
  | BidiHandler<unknown, unknown>;

/** One method of the server: its proto properties, its message checks and its handler. */
export class MethodHandler {
  readonly isUnary: boolean;
  /** Whether the client sends a stream of messages. */
  readonly hasRequestStream: boolean;
  /** Whether its response is a list, which may be large. */
  readonly isList: boolean;
  private readonly checkByHandler: ((request: unknown) => Violation[]) | undefined;
  private readonly checkReferences: References<unknown> | undefined;

  constructor(
    /** The properties of the method from its proto options: scope, routes, kind and so on. */
    readonly descriptor: MethodDescriptor,
    /** Undefined for a method that the server does not have. */
    readonly definition: MethodDefinition | undefined,
    readonly handler: AnyHandler,
    private readonly guards: { readonly checks: FieldRuleChecks; readonly gate: Gate | undefined },
  ) {
    this.isUnary = descriptor.kind === 'unary';
    this.hasRequestStream = descriptor.kind === 'client_streaming' || descriptor.kind === 'bidi_streaming';
    const firstField = descriptor.response.fields.find(({ number }) => number === 1);
    this.isList = firstField?.fieldKind === 'list' && firstField.message !== undefined;
    this.checkByHandler = (handler as UnaryHandler<unknown, unknown>).check;
    this.checkReferences = (handler as UnaryHandler<unknown, unknown>).references;
  }

  /**
   * Validates a message: its organization, the field rules of its proto, then the check of the handler.
   * `decodeViolations`: violations that were found while the message was decoded. Returns undefined for a valid
   * message. Throws organization_required, organization_mismatch, validation_failed. If the message is invalid and the
   * handler can check its references (ids of records in the database), these are checked too, so that all violations
   * are reported together; the result is then a promise that always rejects.
   */
  validate(
    call: ActiveCall,
    message: unknown,
    decodeViolations: readonly Violation[] = NO_VIOLATIONS,
  ): Promise<void> | undefined {
    if (message instanceof DecodeFailure) throw message.error;
    call.request = message;
    bindOrganization(call, this.descriptor, message, decodeViolations);
    const ruleViolations: Violation[] = [];
    this.guards.checks.getCheck(this.descriptor.request)(message as Record<string, unknown>, '', ruleViolations);
    const violations =
      decodeViolations.length === 0
        ? ruleViolations
        : [...decodeViolations, ...excludeNested(decodeViolations, ruleViolations)];
    if (this.checkByHandler) violations.push(...excludeNested(violations, this.checkByHandler(message)));
    if (violations.length > 0 && this.checkReferences)
      return rejectWithReferences(violations, this.listReferenceViolations(call, message, this.checkReferences));
    throwIfAny(violations);
    return undefined;
  }

  /**
   * Returns the violations of the references in a message. Checks the scope first, so that a restricted key does not
   * learn which resources exist. Rejects with the error of that check.
   */
  private async listReferenceViolations(
    call: ActiveCall,
    message: unknown,
    checkReferences: References<unknown>,
  ): Promise<readonly Violation[]> {
    await this.checkScope(call, message);
    return await checkReferences(message, call);
  }

  /**
   * Checks that a restricted key may access the resources that the message names (the ids in the fields of
   * `restrictedKeys.resourceFields`); undefined if there is nothing to check. Rejects with the error for a resource
   * that does not exist.
   */
  checkScope({ principal }: ActiveCall, message: unknown): Promise<undefined> | undefined {
    const { gate } = this.guards;
    if (!(principal as Principal | undefined)?.resourceScope || !gate) return undefined;
    const namedResources = this.descriptor.restrictedKeys.resourceFields
      .map(({ path, kind }): NamedResources => ({ kind, ids: readIds(message, path) }))
      .filter(({ ids }) => ids.length > 0);
    return namedResources.length === 0 ? undefined : gate.assertAccess(principal, namedResources).then(() => undefined);
  }
}

const NO_VIOLATIONS: readonly Violation[] = [];
/** Where a path such as `mappings[2].sourcePath` continues below a field. */
const PATH_SEPARATOR = /[.[]/g;

/**
 * Returns the later violations that are not in or below a field with an earlier violation. Such a field was not decoded
 * or was truncated, so checks of its content are meaningless.
 */
function excludeNested(violations: readonly Violation[], later: readonly Violation[]): readonly Violation[] {
  if (violations.length === 0 || later.length === 0) return later;
  const invalidFields = new Set(violations.map(({ field }) => field));
  if (invalidFields.has('')) return [];
  const isInside = (field: string): boolean => {
    const outerFields = Array.from(field.matchAll(PATH_SEPARATOR), ({ index }) => field.slice(0, index));
    return invalidFields.has(field) || outerFields.some((outer) => invalidFields.has(outer));
  };
  return later.filter(({ field }) => !isInside(field));
}

/** Returns the later violations whose field has no earlier violation, so that each field is reported once. */
function excludeSameField(violations: readonly Violation[], later: readonly Violation[]): Violation[] {
  const invalidFields = new Set(violations.map(({ field }) => field));
  return later.filter(({ field }) => !invalidFields.has(field));
}

/**
 * Reads the ids in a field of a message that is an id or a list of ids. `path`: the names of the field and its parents.
 */
function readIds(message: unknown, path: readonly string[]): string[] {
  const value = path.reduce<unknown>(
    (parent, name) => (parent as Record<string, unknown> | undefined)?.[name],
    message,
  );
  return (Array.isArray(value) ? value : [value]).filter((id): id is string => typeof id === 'string' && id !== '');
}

/** Always rejects: with the violations, and those of the references of fields without a violation. */
async function rejectWithReferences(
  violations: readonly Violation[],
  references: Promise<readonly Violation[]>,
): Promise<void> {
  const referenceViolations = await references.catch((error: unknown) => {
    // For example, the device does not exist. The known violations are still reported.
    if (error instanceof DomainError) return [];
    throw error;
  });
  throw validationFailed([...violations, ...excludeSameField(violations, referenceViolations)]);
}

/**
 * Creates a MethodHandler for each method of a service. `definition`: the methods as ts-proto generates them;
 * `handlers`: their handlers, by the same names. Throws if a method is not in the descriptor image or has no handler.
 */
export function createMethodHandlers(
  {
    descriptors,
    checks,
    gate,
  }: { readonly descriptors: Descriptors; readonly checks: FieldRuleChecks; readonly gate: Gate | undefined },
  definition: Readonly<Record<string, MethodDefinition>>,
  handlers: Readonly<Record<string, AnyHandler | undefined>>,
): MethodHandler[] {
  return Object.entries(definition).map(([name, method]) => {
    const { path } = method;
    const descriptor = descriptors.methods.get(path);
    const handler = handlers[name];
    if (!descriptor) throw new Error(`${path} is not in the descriptor image: rebuild it with "npm run build"`);
    if (!handler) throw new Error(`${path} has no handler`);
    return new MethodHandler(descriptor, method, handler, { checks, gate });
  });
}

/** The path of an unknown method is truncated to this length, because the client chooses it. */
const MAX_PATH_LENGTH = 200;

/**
 * Creates a placeholder for a method that the server does not have, so that its calls fail and are logged like others.
 * `path` comes from the client and is logged, so API keys in it are redacted.
 */
export function createUnknownMethod(path: string, checks: FieldRuleChecks): MethodHandler {
  const redactedPath = redactApiKeys(path).slice(0, MAX_PATH_LENGTH);
  return new MethodHandler(
    {
      path: redactedPath,
      service: '',
      scope: 'none',
      restrictedKeys: { devices: 'open', commands: 'open', resourceFields: [] },
      adminOnly: false,
      changes: false,
      freesSpace: false,
      successStatus: 200,
      statusRules: [],
      notPerformed: undefined,
      content: 'json',
      idempotencyKey: undefined,
      routes: [],
      kind: 'unary',
      request: EmptySchema,
      response: EmptySchema,
      namesOrganization: false,
    },
    undefined,
    throwUnknownMethod,
    { checks, gate: undefined },
  );
}

/** Whether the server has the method. */
export function isKnown({ handler }: MethodHandler): boolean {
  return handler !== throwUnknownMethod;
}

/** Throws method_not_found if the server does not have the method. */
export function requireKnown(method: MethodHandler): void {
  const { descriptor } = method;
  if (!isKnown(method))
    throw new DomainError(
      'unimplemented',
      'method_not_found',
      `method ${descriptor.path} not found: use a method from the protos of this server (gRPC reflection lists them)`,
    );
}

/**
 * The handler of all placeholders; `isKnown` recognizes them by it. Never called, because requireKnown rejects calls.
 */
function throwUnknownMethod(): never {
  throw new Error('bug: an unknown method was dispatched');
}
