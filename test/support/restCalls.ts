import type { DescField, DescMessage } from '@bufbuild/protobuf';
import { ActuatorCommandServiceService } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceService } from '../../src/gen/connection/connection_service';
import { ConnectorServiceService } from '../../src/gen/connector/connector_service';
import { DashboardServiceService } from '../../src/gen/dashboard/v2/dashboard_service';
import { DigitalDeviceServiceService } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { HealthService } from '../../src/gen/grpc/health/v1/health';
import { MediaServiceService } from '../../src/gen/media/v1/media_service';
import { AccessControlServiceService } from '../../src/gen/organization_access_control/access_control_service';
import { OrganizationsServiceService } from '../../src/gen/organizations_service';
import { SensorTemplateServiceService } from '../../src/gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceService } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import { WidgetServiceService } from '../../src/gen/widget/v2/widget_service';
import type { Definition, MethodDefinition } from '../../src/api/pipeline/definitions';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { ResponseSerializers } from '../../src/api/json/responseSerializer';
import type { JsonObject } from './http';
import { descriptors, encode, type Fields } from './testApp';

const SERVICES: readonly Definition[] = [
  ActuatorCommandServiceService,
  ConnectionServiceService,
  ConnectorServiceService,
  DashboardServiceService,
  DigitalDeviceServiceService,
  HealthService,
  MediaServiceService,
  AccessControlServiceService,
  OrganizationsServiceService,
  SensorTemplateServiceService,
  SensorQueryServiceService,
  UserProfileServiceService,
  WidgetServiceService,
];
const DEFINITIONS: ReadonlyMap<string, MethodDefinition> = new Map(
  SERVICES.flatMap((service) => Object.values(service)).map((method) => [method.path, method]),
);
const writers = new ResponseSerializers(descriptors);

/** One way to call a method over HTTP: a route of the protos, or POST at the gRPC path. */
export interface HttpWay {
  readonly descriptor: MethodDescriptor;
  readonly verb: string;
  /** As in the proto: `/api/v2/devices/{id}`. */
  readonly route: string;
  /** `*`, or empty if the request has no body. */
  readonly body: string;
  /** The fields that the path contains. */
  readonly inPath: readonly DescField[];
}

/** Lists every way to call a method whose request is one JSON message. */
export function httpWays(descriptor: MethodDescriptor): HttpWay[] {
  if (descriptor.kind !== 'unary' && descriptor.kind !== 'server_streaming') return [];
  const named = descriptor.routes.map(({ verb, route, body }) => ({
    descriptor,
    verb,
    route,
    body,
    inPath: pathFields(descriptor.request, route),
  }));
  return [...named, { descriptor, verb: 'POST', route: descriptor.path, body: '*', inPath: [] }];
}

/** The ways to call every method of the server, by `VERB route`. */
export const HTTP_WAYS: readonly (readonly [name: string, way: HttpWay])[] = [...descriptors.methods.values()]
  .flatMap(httpWays)
  .map((way) => [`${way.verb} ${way.route}`, way] as const);

/**
 * Converts the fields of a request to JSON for HTTP. An empty list is omitted, because gRPC cannot distinguish it from
 * a missing one.
 */
export function requestJson(descriptor: MethodDescriptor, fields: Fields): JsonObject {
  const message = getDefinition(descriptor).requestDeserialize(Buffer.from(encode(descriptor.request, fields)));
  const json = JSON.parse(writers.getSerializer(descriptor.request).toText(message)) as JsonObject;
  return Object.fromEntries(Object.entries(json).filter(([, value]) => !Array.isArray(value) || value.length > 0));
}

/** Converts a response of gRPC to the JSON of HTTP. */
export function answerJson(descriptor: MethodDescriptor, answer: Buffer): JsonObject {
  return JSON.parse(
    writers.getSerializer(descriptor.response).toText(getDefinition(descriptor).responseDeserialize(answer)),
  ) as JsonObject;
}

/** Builds the URL and the body of a request. */
export function buildRequest(way: HttpWay, json: JsonObject): { url: string; body: JsonObject | undefined } {
  const rest = { ...json };
  let url = way.route;
  for (const { name, jsonName } of way.inPath) {
    url = url.replace(`{${name}}`, encodeURIComponent(String(rest[jsonName])));
    delete rest[jsonName];
  }
  if (way.body === '*') return { url, body: rest };
  const query = new URLSearchParams(getQuery(rest)).toString();
  return { url: query === '' ? url : `${url}?${query}`, body: undefined };
}

/** Builds a path of this way for an ID that does not exist. */
export function anyPath(way: HttpWay, id = '0190a0a0-0000-7000-8000-000000000009'): string {
  return way.route.replaceAll(/\{\w+\}/g, encodeURIComponent(id));
}

function getQuery(json: JsonObject, prefix = ''): [string, string][] {
  return Object.entries(json).flatMap(([name, value]): [string, string][] => {
    if (Array.isArray(value)) return value.map((item) => [`${prefix}${name}`, String(item)]);
    if (typeof value === 'object' && value !== null) return getQuery(value as JsonObject, `${prefix}${name}.`);
    return value === '' ? [] : [[`${prefix}${name}`, String(value)]];
  });
}

function pathFields(request: DescMessage, route: string): DescField[] {
  const names = [...route.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return request.fields.filter(({ name }) => names.includes(name));
}

function getDefinition({ path }: MethodDescriptor): MethodDefinition {
  const found = DEFINITIONS.get(path);
  if (!found) throw new Error(`test/support/restCalls.ts does not know ${path} yet`);
  return found;
}
