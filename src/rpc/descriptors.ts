import { createFileRegistry, fromBinary, type DescExtension, type DescField, type DescMessage, type DescMethod, type FileRegistry } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema, type FileDescriptorSet } from '@bufbuild/protobuf/wkt';
import { isScope, type Scope } from '../kernel/scopes';
import type { LimitedThing } from './gate';
import { optionOf } from './protoOptions';

/** One HTTP route of a method, as its `google.api.http` says; `body` is `*`, a field, or empty. */
export interface HttpRoute {
  readonly verb: string;
  readonly route: string;
  readonly body: string;
  /** The fields in its path, by their names in the proto. */
  readonly inPath: readonly string[];
}

/** Another HTTP status of an answer: `plantroom.v1.StatusRule`. */
export interface StatusRule {
  readonly status: number;
  /** The JSON name of a field of the answer. */
  readonly field: string;
  /** Its value as JSON text without quotes. */
  readonly value: string;
}

/** An answer which says that nothing was done: `plantroom.v1.NotDone`. */
export interface NotDone {
  /** The JSON name of a field of the answer. */
  readonly field: string;
  /** Its value as JSON text without quotes. */
  readonly value: string;
  /** What the audit trail says of it. */
  readonly reason: string;
}

/** How a field looks in JSON over HTTP: `plantroom.v1.JsonForm`. */
export interface JsonForm {
  readonly orNull: boolean;
  readonly nullSets: string;
  readonly emptySets: string;
  readonly only: readonly string[];
  readonly mustBeGiven: boolean;
  readonly always: boolean;
}

/** What takes the place of JSON over HTTP: `plantroom.v1.HttpContent`. */
export type HttpContent = 'json' | 'upload' | 'download';

/** What a limited key may do with a method: `plantroom.v1.LimitedUse`. */
export type LimitedUse = 'open' | 'refused' | 'inside';

/** What limited keys may do with a method: `plantroom.v1.LimitedKeys`. */
export interface LimitedKeys {
  readonly devices: LimitedUse;
  readonly commands: LimitedUse;
  /** Fields of the request, by the path of their local names, whose things must lie inside. */
  readonly inside: readonly { readonly path: readonly string[]; readonly thing: LimitedThing }[];
}

/** What the protos say about one method. */
export interface MethodFacts {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The full name of its service. */
  readonly service: string;
  /** The scope that a key must hold, `any` for a valid key of whatever scope, `none` for no key at all. */
  readonly scope: Scope | 'any' | 'none';
  readonly limited: LimitedKeys;
  /** Only an admin key may call it. */
  readonly adminOnly: boolean;
  /** It changes something: the audit trail tells of it. */
  readonly changes: boolean;
  /** A change that makes room or ends something, by the verb that its name begins with: it is taken while the disk is full, too. */
  readonly clearsUp: boolean;
  /** The HTTP status of success. */
  readonly successStatus: number;
  /** Other statuses, by what stands in the answer; the first that fits. */
  readonly statusRules: readonly StatusRule[];
  /** The answer of which the audit trail does not say that it succeeded. */
  readonly notDone: NotDone | undefined;
  readonly content: HttpContent;
  /** Its HTTP routes, the main one first; empty for a method that only gRPC has. */
  readonly routes: readonly HttpRoute[];
  readonly kind: DescMethod['methodKind'];
  readonly request: DescMessage;
  readonly response: DescMessage;
  /** Whether the request names the organization in a field of its own. */
  readonly namesOrganization: boolean;
}

/** What a field may hold: `plantroom.v1.FieldRules`. */
export interface FieldRules {
  readonly required: boolean;
  readonly format: number;
  readonly minLength: number;
  readonly maxLength: number;
  readonly maxBytes: number;
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  readonly maxItems: number;
  readonly unique: boolean;
  readonly in: readonly string[];
  readonly maxDepth: number;
  readonly checkedByHandler: boolean;
}

interface HttpRule {
  readonly body: string;
  readonly pattern: { readonly case?: string; readonly value?: unknown };
  readonly additionalBindings: readonly HttpRule[];
}

/** The protos as the program was built with them: what the server, the gateway to REST and reflection read. */
export class Descriptors {
  readonly files: FileDescriptorSet;
  readonly registry: FileRegistry;
  /** Every method by its path. */
  readonly methods: ReadonlyMap<string, MethodFacts>;
  private readonly rules = new Map<DescField, FieldRules | undefined>();
  private readonly rulesOption: DescExtension;
  private readonly jsonOption: DescExtension;

  /** Throws when a method has no scope, or one that this server does not know. */
  constructor(image: Uint8Array) {
    this.files = fromBinary(FileDescriptorSetSchema, image);
    this.registry = createFileRegistry(this.files);
    this.rulesOption = this.extension('plantroom.v1.rules');
    this.jsonOption = this.extension('plantroom.v1.json');
    this.methods = this.readMethods();
  }

  /** The rules of a field; undefined when it has none. */
  rulesOf(field: DescField): FieldRules | undefined {
    if (!this.rules.has(field)) this.rules.set(field, optionOf<FieldRules | undefined>(field, this.rulesOption, undefined));
    return this.rules.get(field);
  }

  /** The form of a field in JSON; undefined when it is what the proto alone says. */
  jsonFormOf(field: DescField): JsonForm | undefined {
    return optionOf<JsonForm | undefined>(field, this.jsonOption, undefined);
  }

  private readMethods(): Map<string, MethodFacts> {
    const options = {
      scope: this.extension('plantroom.v1.required_scope'),
      status: this.extension('plantroom.v1.success_status'),
      http: this.extension('google.api.http'),
      statusRules: this.extension('plantroom.v1.status_rules'),
      content: this.extension('plantroom.v1.http_content'),
      limited: this.extension('plantroom.v1.limited_keys'),
      adminOnly: this.extension('plantroom.v1.admin_only'),
      changesNothing: this.extension('plantroom.v1.changes_nothing'),
      notDone: this.extension('plantroom.v1.not_done'),
    };
    const methods = [...this.registry.files].flatMap((file) => file.services).flatMap((service) => service.methods);
    const facts = methods.map((method) => factsOf(method, options));
    const closed = facts.filter(({ scope }) => scope !== 'any' && scope !== 'none' && !isScope(scope));
    if (closed.length > 0) {
      throw new Error(`these methods need a (plantroom.v1.required_scope) that the server knows: ${closed.map((m) => `${m.path} (${m.scope || 'none given'})`).join(', ')}`);
    }
    const silent = facts.filter(({ scope, limited }) => scope !== 'none' && (!limited.devices || !limited.commands));
    if (silent.length > 0) throw new Error(`these methods need a (plantroom.v1.limited_keys) that says what limited keys may do: ${silent.map(({ path }) => path).join(', ')}`);
    return new Map(facts.map((fact) => [fact.path, fact]));
  }

  private extension(name: string): DescExtension {
    const found = this.registry.getExtension(name);
    if (!found) throw new Error(`the descriptor image does not hold ${name}; build it again`);
    return found;
  }
}

// By the numbers of the enum.
const CONTENT: readonly HttpContent[] = ['json', 'upload', 'download'];

// By the numbers of the enums; nothing for what was not said.
const USES = [undefined, 'open', 'refused', 'inside'] as const;
const THINGS = [undefined, 'device', 'command', 'execution', 'connection', 'sensor', 'media'] as const;

interface LimitedOption {
  readonly devices: number;
  readonly commands: number;
  readonly inside: readonly { readonly field: string; readonly thing: number }[];
}

const NOTHING_SAID: LimitedOption = { devices: 0, commands: 0, inside: [] };

function limitedOf(method: DescMethod, { devices, commands, inside }: LimitedOption): LimitedKeys {
  const fields = inside.map(({ field, thing }) => ({ path: localPath(method, field), thing: THINGS[thing] as LimitedThing }));
  return { devices: USES[devices] as LimitedUse, commands: USES[commands] as LimitedUse, inside: fields };
}

function localPath(method: DescMethod, path: string): string[] {
  let message: DescMessage | undefined = method.input;
  return path.split('.').map((name) => {
    const field: DescField | undefined = message?.fields.find((one) => one.name === name);
    if (!field) throw new Error(`(plantroom.v1.limited_keys) of ${method.parent.typeName}/${method.name} names the field ${path}, which its request has not`);
    message = field.message;
    return field.localName;
  });
}

type MethodOption = 'scope' | 'status' | 'http' | 'statusRules' | 'content' | 'limited' | 'adminOnly' | 'changesNothing' | 'notDone';

function factsOf(method: DescMethod, options: Record<MethodOption, DescExtension>): MethodFacts {
  const scope = optionOf(method, options.scope, '') as MethodFacts['scope'];
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    service: method.parent.typeName,
    scope,
    limited: limitedOf(method, optionOf(method, options.limited, NOTHING_SAID)),
    adminOnly: optionOf(method, options.adminOnly, false),
    clearsUp: /^(Delete|Remove|Revoke|Cancel)[A-Z]/.test(method.name),
    changes: scope.endsWith(':write') && !optionOf(method, options.changesNothing, false),
    successStatus: optionOf(method, options.status, 0) || 200,
    statusRules: optionOf<StatusRule[]>(method, options.statusRules, []),
    notDone: optionOf<NotDone | undefined>(method, options.notDone, undefined),
    content: CONTENT[optionOf(method, options.content, 0)] ?? 'json',
    routes: routesOf(optionOf<HttpRule | undefined>(method, options.http, undefined)),
    kind: method.methodKind,
    request: method.input,
    response: method.output,
    namesOrganization: method.input.fields.some((field) => field.name === 'organization_id' && field.fieldKind === 'scalar'),
  };
}

function routesOf(rule: HttpRule | undefined): HttpRoute[] {
  if (!rule) return [];
  const { pattern, body, additionalBindings } = rule;
  const own = pattern.case && typeof pattern.value === 'string' ? [{ verb: pattern.case.toUpperCase(), route: pattern.value, body, inPath: variablesOf(pattern.value) }] : [];
  return [...own, ...additionalBindings.flatMap(routesOf)];
}

function variablesOf(route: string): string[] {
  return [...route.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
