import {
  createFileRegistry,
  fromBinary,
  type DescExtension,
  type DescField,
  type DescMessage,
  type DescMethod,
  type FileRegistry,
} from '@bufbuild/protobuf';
import { FileDescriptorSetSchema, type FileDescriptorSet } from '@bufbuild/protobuf/wkt';
import { readAsset } from '../../kernel/assets';
import { isScope, type Scope } from '../../kernel/scopes';
import type { ResourceKind } from '../../kernel/resourceScope';
import { readOption } from './protoOptions';

/** One HTTP route of a method, from its `google.api.http` option. `body` is `*`, a field name, or empty. */
export interface HttpRoute {
  readonly verb: string;
  readonly route: string;
  readonly body: string;
  /** The proto names of the fields in the path. */
  readonly pathFields: readonly string[];
}

/** A rule that sets another HTTP status for some responses: `plantroom.v1.StatusRule`. */
interface StatusRule {
  readonly status: number;
  /** The JSON name of a response field. */
  readonly field: string;
  /** The value of the field for which the rule applies, as JSON text without quotes. */
  readonly value: string;
}

/** How a response shows that the method changed nothing: `plantroom.v1.NotPerformed`. */
interface NotPerformed {
  /** The JSON name of a response field. */
  readonly field: string;
  /** The value of the field in such a response, as JSON text without quotes. */
  readonly value: string;
  /** The reason in the audit trail. */
  readonly reason: string;
}

/** How a method uses an idempotency key: `plantroom.v1.IdempotencyKey`. */
interface IdempotencyKeyUse {
  /** The local name of the request field that the key is copied to if it is unset; empty: the response is stored. */
  readonly field: string;
}

/** The JSON representation of a field over HTTP: `plantroom.v1.JsonForm`. */
interface JsonForm {
  /** In a response: an unset field is written as null instead of being omitted. */
  readonly nullable: boolean;
  /**
   * In a request: the boolean field of the same message that JSON null sets to true; empty: none. For example,
   * `"physicalDevice": null` sets `unbindPhysicalDevice`.
   */
  readonly nullClears: string;
  /** In a request: the boolean field of the same message that an empty list (`[]`) sets to true; empty: none. */
  readonly emptyClears: string;
  /** In a response: the only fields that the messages in this field contain, as proto names; empty: all. */
  readonly only: readonly string[];
  /** In a request: the field is required, even if its value is an empty list. */
  readonly requiredInJson: boolean;
  /** In a response: the field is always present, although the proto allows it to be absent. */
  readonly always: boolean;
}

/** The content type of a method over HTTP: `plantroom.v1.HttpContent`. */
type HttpContent = 'json' | 'upload' | 'download';

/**
 * Whether a restricted key may call a method: `plantroom.v1.RestrictedKeyAccess`. `inside`: only for resources within
 * the limits of the key.
 */
type RestrictedKeyAccess = 'open' | 'refused' | 'inside';

/** A request field with the ids of resources of one kind: `plantroom.v1.ResourceField`. */
export interface ResourceField {
  /** The path of the field, in local names. */
  readonly path: readonly string[];
  readonly kind: ResourceKind;
}

/** How keys with restrictions may use a method: `plantroom.v1.RestrictedKeyPolicy`. */
interface RestrictedKeyPolicy {
  /** For keys that are restricted to some devices or connections. */
  readonly devices: RestrictedKeyAccess;
  /** For keys that are restricted to some commands. */
  readonly commands: RestrictedKeyAccess;
  /** The request fields with the ids of resources that the key must be allowed to access. */
  readonly resourceFields: readonly ResourceField[];
}

/** The properties of a method from its proto options. */
export interface MethodDescriptor {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The full name of the service. */
  readonly service: string;
  /** The required scope. `any`: any valid key is sufficient; `none`: no key is required. */
  readonly scope: Scope | 'any' | 'none';
  /** What keys that are restricted to some devices or commands may do with it. */
  readonly restrictedKeys: RestrictedKeyPolicy;
  /** Whether only admin keys may call it. */
  readonly adminOnly: boolean;
  /** Whether it changes something, so that the audit trail records it. */
  readonly changes: boolean;
  /**
   * Whether the change deletes, removes, revokes or cancels something (by the verb of its name). Such a change is
   * allowed while the disk is full.
   */
  readonly freesSpace: boolean;
  /** The HTTP status of success. */
  readonly successStatus: number;
  /** Rules for other HTTP statuses, depending on the response; the first rule that matches applies. */
  readonly statusRules: readonly StatusRule[];
  /** The response that the audit trail records as refused, although the call succeeded. */
  readonly notPerformed: NotPerformed | undefined;
  readonly content: HttpContent;
  /** How it uses an idempotency key; undefined if it does not accept one. */
  readonly idempotencyKey: IdempotencyKeyUse | undefined;
  /** The HTTP routes, the primary one first; empty for a method that is only available over gRPC. */
  readonly routes: readonly HttpRoute[];
  readonly kind: DescMethod['methodKind'];
  readonly request: DescMessage;
  readonly response: DescMessage;
  /** Whether the request has a field `organization_id`. */
  readonly namesOrganization: boolean;
}

/** The validation rules of a field: `plantroom.v1.FieldRules`. */
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
  readonly callerAssigned: boolean;
}

/** The option `google.api.http` as decoded. */
interface HttpRule {
  readonly body: string;
  readonly pattern: { readonly case?: string; readonly value?: unknown };
  readonly additionalBindings: readonly HttpRule[];
}

let apiDescriptors: Descriptors | undefined;

/** Returns the descriptors of the API of this program, which are parsed once per process. */
export function getApiDescriptors(): Descriptors {
  return (apiDescriptors ??= new Descriptors(readAsset('image.binpb')));
}

/** The compiled protos, for gRPC, REST and reflection. */
export class Descriptors {
  readonly files: FileDescriptorSet;
  readonly registry: FileRegistry;
  /** All methods by path. */
  readonly methods: ReadonlyMap<string, MethodDescriptor>;
  private readonly rules = new Map<DescField, FieldRules | undefined>();
  private readonly rulesOption: DescExtension;
  private readonly jsonOption: DescExtension;

  /**
   * `image` is a serialized FileDescriptorSet. Throws if a method has no scope, an unknown scope, or no policy for
   * restricted keys.
   */
  constructor(image: Uint8Array) {
    this.files = fromBinary(FileDescriptorSetSchema, image);
    this.registry = createFileRegistry(this.files);
    this.rulesOption = this.getExtension('plantroom.v1.rules');
    this.jsonOption = this.getExtension('plantroom.v1.json');
    this.methods = this.readMethods();
  }

  /** Returns the validation rules of a field; undefined if there are none. */
  getRules(field: DescField): FieldRules | undefined {
    if (!this.rules.has(field))
      this.rules.set(field, readOption<FieldRules | undefined>(field, this.rulesOption, undefined));
    return this.rules.get(field);
  }

  /** Returns the JSON form of a field; undefined for the default form of the proto. */
  findJsonForm(field: DescField): JsonForm | undefined {
    return readOption<JsonForm | undefined>(field, this.jsonOption, undefined);
  }

  /**
   * Reads the properties of all methods, by path. Throws if a method has no valid scope or no policy for restricted
   * keys.
   */
  private readMethods(): Map<string, MethodDescriptor> {
    const options = {
      scope: this.getExtension('plantroom.v1.required_scope'),
      status: this.getExtension('plantroom.v1.success_status'),
      http: this.getExtension('google.api.http'),
      statusRules: this.getExtension('plantroom.v1.status_rules'),
      content: this.getExtension('plantroom.v1.http_content'),
      restrictedKeys: this.getExtension('plantroom.v1.restricted_keys'),
      adminOnly: this.getExtension('plantroom.v1.admin_only'),
      isReadOnly: this.getExtension('plantroom.v1.read_only'),
      notPerformed: this.getExtension('plantroom.v1.not_performed'),
      idempotencyKey: this.getExtension('plantroom.v1.idempotency_key'),
    };
    const methods = [...this.registry.files].flatMap((file) => file.services).flatMap((service) => service.methods);
    const descriptors = methods.map((method) => describeMethod(method, options));
    const withoutScope = descriptors.filter(({ scope }) => scope !== 'any' && scope !== 'none' && !isScope(scope));
    if (withoutScope.length > 0) {
      throw new Error(
        `missing or unknown (plantroom.v1.required_scope) on: ${withoutScope.map(({ path, scope }) => `${path} (${scope || 'missing'})`).join(', ')}`,
      );
    }
    const withoutPolicy = descriptors.filter(
      ({ scope, restrictedKeys }) => scope !== 'none' && (!restrictedKeys.devices || !restrictedKeys.commands),
    );
    if (withoutPolicy.length > 0)
      throw new Error(
        `missing (plantroom.v1.restricted_keys) with devices and commands on: ${withoutPolicy.map(({ path }) => path).join(', ')}`,
      );
    return new Map(descriptors.map((descriptor) => [descriptor.path, descriptor]));
  }

  /** Returns a proto option of this project by its full name. Throws if the image is older than the option. */
  private getExtension(name: string): DescExtension {
    const extension = this.registry.getExtension(name);
    if (!extension) throw new Error(`the descriptor image does not contain ${name}: rebuild it with "npm run build"`);
    return extension;
  }
}

// Indexed by the numbers of the proto enum.
const HTTP_CONTENTS: readonly HttpContent[] = ['json', 'upload', 'download'];

// Indexed by the numbers of the proto enums; undefined for UNSPECIFIED.
const ACCESS_LEVELS = [undefined, 'open', 'refused', 'inside'] as const;
const RESOURCE_KINDS = [undefined, 'device', 'command', 'execution', 'connection', 'sensor', 'media'] as const;

/** The option `plantroom.v1.restricted_keys` as decoded. */
interface RestrictedKeysOption {
  readonly devices: number;
  readonly commands: number;
  readonly resourceFields: readonly { readonly field: string; readonly kind: number }[];
}

/** The policy of a method without the option; `readMethods` rejects it. */
const UNSPECIFIED_POLICY: RestrictedKeysOption = { devices: 0, commands: 0, resourceFields: [] };

/**
 * Converts the option `plantroom.v1.restricted_keys` of a method: its enum numbers to names, and its proto field names
 * to paths in the ts-proto message.
 */
function toRestrictedKeyPolicy(
  method: DescMethod,
  { devices, commands, resourceFields }: RestrictedKeysOption,
): RestrictedKeyPolicy {
  return {
    // Undefined if UNSPECIFIED; readMethods rejects that.
    devices: ACCESS_LEVELS[devices] as RestrictedKeyAccess,
    commands: ACCESS_LEVELS[commands] as RestrictedKeyAccess,
    resourceFields: resourceFields.map(({ field, kind }) => ({
      path: toTsProtoPath(method, field),
      kind: RESOURCE_KINDS[kind] as ResourceKind,
    })),
  };
}

/** Converts the option `plantroom.v1.idempotency_key`; undefined if the method accepts no idempotency key. */
function readIdempotencyKeyUse(
  method: DescMethod,
  option: IdempotencyKeyUse | undefined,
): IdempotencyKeyUse | undefined {
  return option && { field: option.field === '' ? '' : toTsProtoPath(method, option.field).join('.') };
}

/**
 * Converts a path of proto names, such as `command.device_id`, to the field names of the ts-proto message. Throws if
 * the request of the method has no such field.
 */
function toTsProtoPath(method: DescMethod, path: string): string[] {
  let message: DescMessage | undefined = method.input;
  return path.split('.').map((name) => {
    const field: DescField | undefined = message?.fields.find((candidate) => candidate.name === name);
    if (!field)
      throw new Error(`an option of ${method.parent.typeName}/${method.name} names the unknown request field ${path}`);
    message = field.message;
    return field.localName;
  });
}

type MethodOption =
  | 'scope'
  | 'status'
  | 'http'
  | 'statusRules'
  | 'content'
  | 'restrictedKeys'
  | 'adminOnly'
  | 'isReadOnly'
  | 'notPerformed'
  | 'idempotencyKey';

/** Reads the properties of one method from its options. */
function describeMethod(method: DescMethod, options: Record<MethodOption, DescExtension>): MethodDescriptor {
  const scope = readOption(method, options.scope, '') as MethodDescriptor['scope'];
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    service: method.parent.typeName,
    scope,
    restrictedKeys: toRestrictedKeyPolicy(method, readOption(method, options.restrictedKeys, UNSPECIFIED_POLICY)),
    adminOnly: readOption(method, options.adminOnly, false),
    freesSpace: /^(Delete|Remove|Revoke|Cancel)[A-Z]/.test(method.name),
    changes: /:(write|execute)$/.test(scope) && !readOption(method, options.isReadOnly, false),
    successStatus: readOption(method, options.status, 0) || 200,
    statusRules: readOption<StatusRule[]>(method, options.statusRules, []),
    notPerformed: readOption<NotPerformed | undefined>(method, options.notPerformed, undefined),
    content: HTTP_CONTENTS[readOption(method, options.content, 0)] ?? 'json',
    idempotencyKey: readIdempotencyKeyUse(
      method,
      readOption<IdempotencyKeyUse | undefined>(method, options.idempotencyKey, undefined),
    ),
    routes: listRoutes(readOption<HttpRule | undefined>(method, options.http, undefined)),
    kind: method.methodKind,
    request: method.input,
    response: method.output,
    namesOrganization: method.input.fields.some(
      (field) => field.name === 'organization_id' && field.fieldKind === 'scalar',
    ),
  };
}

/** Lists the routes of an HTTP rule: its own route, then its additional bindings. */
function listRoutes(rule: HttpRule | undefined): HttpRoute[] {
  if (!rule) return [];
  const { pattern, body, additionalBindings } = rule;
  const ownRoutes =
    pattern.case && typeof pattern.value === 'string'
      ? [{ verb: pattern.case.toUpperCase(), route: pattern.value, body, pathFields: listVariables(pattern.value) }]
      : [];
  return [...ownRoutes, ...additionalBindings.flatMap(listRoutes)];
}

/** Lists the fields in a route: `device_id` for `/devices/{device_id}`. */
function listVariables(route: string): string[] {
  return [...route.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
