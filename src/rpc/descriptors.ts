import { createFileRegistry, fromBinary, getOption, hasOption, type DescExtension, type DescField, type DescMessage, type DescMethod, type FileRegistry } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema, type FileDescriptorSet } from '@bufbuild/protobuf/wkt';
import { isScope, type Scope } from '../kernel/scopes';

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

/** What the protos say about one method. */
export interface MethodFacts {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The full name of its service. */
  readonly service: string;
  /** The scope that a key must hold, `any` for a valid key of whatever scope, `none` for no key at all. */
  readonly scope: Scope | 'any' | 'none';
  /** The HTTP status of success. */
  readonly successStatus: number;
  /** Other statuses, by what stands in the answer; the first that fits. */
  readonly statusRules: readonly StatusRule[];
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
    return hasOption(field, this.rulesOption) ? (getOption(field, this.rulesOption) as FieldRules) : undefined;
  }

  /** The form of a field in JSON; undefined when it is what the proto alone says. */
  jsonFormOf(field: DescField): JsonForm | undefined {
    return hasOption(field, this.jsonOption) ? (getOption(field, this.jsonOption) as JsonForm) : undefined;
  }

  private readMethods(): Map<string, MethodFacts> {
    const options = {
      scope: this.extension('plantroom.v1.required_scope'),
      status: this.extension('plantroom.v1.success_status'),
      http: this.extension('google.api.http'),
      statusRules: this.extension('plantroom.v1.status_rules'),
      content: this.extension('plantroom.v1.http_content'),
    };
    const methods = [...this.registry.files].flatMap((file) => file.services).flatMap((service) => service.methods);
    const facts = methods.map((method) => factsOf(method, options));
    const closed = facts.filter(({ scope }) => scope !== 'any' && scope !== 'none' && !isScope(scope));
    if (closed.length > 0) {
      throw new Error(`these methods need a (plantroom.v1.required_scope) that the server knows: ${closed.map((m) => `${m.path} (${m.scope || 'none given'})`).join(', ')}`);
    }
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

function factsOf(method: DescMethod, options: Record<'scope' | 'status' | 'http' | 'statusRules' | 'content', DescExtension>): MethodFacts {
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    service: method.parent.typeName,
    scope: getOption(method, options.scope) as MethodFacts['scope'],
    successStatus: (getOption(method, options.status) as number) || 200,
    statusRules: getOption(method, options.statusRules) as StatusRule[],
    content: CONTENT[getOption(method, options.content) as number] ?? 'json',
    routes: hasOption(method, options.http) ? routesOf(getOption(method, options.http) as HttpRule) : [],
    kind: method.methodKind,
    request: method.input,
    response: method.output,
    namesOrganization: method.input.fields.some((field) => field.name === 'organization_id' && field.fieldKind === 'scalar'),
  };
}

function routesOf({ pattern, body, additionalBindings }: HttpRule): HttpRoute[] {
  const own = pattern.case && typeof pattern.value === 'string' ? [{ verb: pattern.case.toUpperCase(), route: pattern.value, body, inPath: variablesOf(pattern.value) }] : [];
  return [...own, ...additionalBindings.flatMap(routesOf)];
}

function variablesOf(route: string): string[] {
  return [...route.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
