import type { DescField, DescMessage } from '@bufbuild/protobuf';
import { ActuatorCommandServiceService } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceService } from '../../src/gen/connection/connection_service';
import { ConnectorServiceService } from '../../src/gen/connector/connector_service';
import { DigitalDeviceServiceService } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { HealthService } from '../../src/gen/grpc/health/v1/health';
import { MediaServiceService } from '../../src/gen/media/v1/media_service';
import { AccessControlServiceService } from '../../src/gen/organization_access_control/access_control_service';
import { OrganizationsServiceService } from '../../src/gen/organizations_service';
import { SensorTemplateServiceService } from '../../src/gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceService } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import type { Definition, MethodDefinition } from '../../src/rpc/calls/definitions';
import type { MethodFacts } from '../../src/rpc/descriptors';
import { AnswerWriters } from '../../src/rpc/json/answerWriter';
import type { JsonObject } from './http';
import { descriptors, encode, type Fields } from './testApp';

const SERVICES: readonly Definition[] = [
  ActuatorCommandServiceService, ConnectionServiceService, ConnectorServiceService, DigitalDeviceServiceService, HealthService, MediaServiceService, AccessControlServiceService, OrganizationsServiceService, SensorTemplateServiceService,
  SensorQueryServiceService, UserProfileServiceService,
];
const DEFINITIONS: ReadonlyMap<string, MethodDefinition> = new Map(SERVICES.flatMap((service) => Object.values(service)).map((method) => [method.path, method]));
const writers = new AnswerWriters(descriptors);

/** One way to a method over HTTP: a route of the protos, or POST at the gRPC path. */
export interface HttpWay {
  readonly facts: MethodFacts;
  readonly verb: string;
  /** As the proto has it: `/api/v2/devices/{id}`. */
  readonly route: string;
  /** `*`, or empty where the request has no body. */
  readonly body: string;
  /** The fields that the path names. */
  readonly inPath: readonly DescField[];
}

/** Every way to a method whose request is one message of JSON. */
export function httpWays(facts: MethodFacts): HttpWay[] {
  if (facts.kind !== 'unary' && facts.kind !== 'server_streaming') return [];
  const named = facts.routes.map(({ verb, route, body }) => ({ facts, verb, route, body, inPath: pathFields(facts.request, route) }));
  return [...named, { facts, verb: 'POST', route: facts.path, body: '*', inPath: [] }];
}

/** The ways to every method that the server has, by `VERB route`. */
export const HTTP_WAYS: readonly (readonly [name: string, way: HttpWay])[] = [...descriptors.methods.values()].flatMap(httpWays).map((way) => [`${way.verb} ${way.route}`, way] as const);

/** The fields of a request in JSON, as they are given over HTTP. An empty list is left out, which over gRPC nobody can tell from one that is given. */
export function requestJson(facts: MethodFacts, fields: Fields): JsonObject {
  const message = definitionOf(facts).requestDeserialize(Buffer.from(encode(facts.request, fields)));
  const json = JSON.parse(writers.of(facts.request).text(message)) as JsonObject;
  return Object.fromEntries(Object.entries(json).filter(([, value]) => !Array.isArray(value) || value.length > 0));
}

/** An answer of gRPC as HTTP shows it. */
export function answerJson(facts: MethodFacts, answer: Buffer): JsonObject {
  return JSON.parse(writers.of(facts.response).text(definitionOf(facts).responseDeserialize(answer))) as JsonObject;
}

/** What goes out for a request on this way. */
export function onWay(way: HttpWay, json: JsonObject): { url: string; body: JsonObject | undefined } {
  const rest = { ...json };
  let url = way.route;
  for (const { name, jsonName } of way.inPath) {
    url = url.replace(`{${name}}`, encodeURIComponent(String(rest[jsonName])));
    delete rest[jsonName];
  }
  if (way.body === '*') return { url, body: rest };
  const query = new URLSearchParams(queryOf(rest)).toString();
  return { url: query === '' ? url : `${url}?${query}`, body: undefined };
}

/** A path of this way that fits no thing. */
export function anyPath(way: HttpWay, id = '0190a0a0-0000-7000-8000-000000000009'): string {
  return way.route.replaceAll(/\{\w+\}/g, encodeURIComponent(id));
}

function queryOf(json: JsonObject, prefix = ''): [string, string][] {
  return Object.entries(json).flatMap(([name, value]): [string, string][] => {
    if (Array.isArray(value)) return value.map((item) => [`${prefix}${name}`, String(item)]);
    if (typeof value === 'object' && value !== null) return queryOf(value as JsonObject, `${prefix}${name}.`);
    return value === '' ? [] : [[`${prefix}${name}`, String(value)]];
  });
}

function pathFields(request: DescMessage, route: string): DescField[] {
  const names = [...route.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return request.fields.filter(({ name }) => names.includes(name));
}

function definitionOf({ path }: MethodFacts): MethodDefinition {
  const found = DEFINITIONS.get(path);
  if (!found) throw new Error(`test/support/restCalls.ts does not know ${path} yet`);
  return found;
}
