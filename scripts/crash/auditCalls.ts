import { status, type ServiceError } from '@grpc/grpc-js';
import {
  ActuatorCommandServiceService,
  CreateCommandRequest,
  ExecuteCommandRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  CreateDigitalDeviceRequest,
  DeleteDigitalDeviceRequest,
  DigitalDeviceServiceService,
  UpdateDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import {
  AccessControlServiceService,
  AddMemberRequest,
  CreateApiKeyRequest,
  RemoveMemberRequest,
  RevokeApiKeyRequest,
  RotateApiKeyRequest,
} from '../../src/gen/organization_access_control/access_control_service';
import { callUnary, isServerGone } from './clients';
import type { Running } from './site';

/** The response fields that the proof reads, of all methods. */
export interface ResponseFields {
  readonly id?: string;
  readonly userId?: string;
  readonly apiKey?: { readonly id: string };
  readonly executionId?: string;
  readonly accepted?: boolean;
}

/** The result of a call; `gone`: the server was killed before it responded. */
export type CallResult =
  | { readonly kind: 'done'; readonly response: ResponseFields }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'gone' };

interface Method {
  readonly path: string;
  readonly encode: (fields: object) => Buffer;
  readonly decode: (bytes: Buffer) => ResponseFields;
}

function describeMethod<Request>(
  {
    path,
    requestSerialize,
    responseDeserialize,
  }: { path: string; requestSerialize: (request: Request) => Buffer; responseDeserialize: (bytes: Buffer) => unknown },
  Message: { fromPartial(fields: object): Request },
): Method {
  return {
    path,
    encode: (fields) => requestSerialize(Message.fromPartial(fields)),
    decode: (bytes) => responseDeserialize(bytes) as ResponseFields,
  };
}

const [Devices, Commands, Access] = [
  DigitalDeviceServiceService,
  ActuatorCommandServiceService,
  AccessControlServiceService,
];

/** The methods that the proof calls. */
export const METHODS = {
  createDevice: describeMethod(Devices.createDigitalDevice, CreateDigitalDeviceRequest),
  updateDevice: describeMethod(Devices.updateDigitalDevice, UpdateDigitalDeviceRequest),
  deleteDevice: describeMethod(Devices.deleteDigitalDevice, DeleteDigitalDeviceRequest),
  createCommand: describeMethod(Commands.createCommand, CreateCommandRequest),
  execute: describeMethod(Commands.executeCommand, ExecuteCommandRequest),
  createKey: describeMethod(Access.createApiKey, CreateApiKeyRequest),
  rotateKey: describeMethod(Access.rotateApiKey, RotateApiKeyRequest),
  revokeKey: describeMethod(Access.revokeApiKey, RevokeApiKeyRequest),
  addMember: describeMethod(Access.addMember, AddMemberRequest),
  removeMember: describeMethod(Access.removeMember, RemoveMemberRequest),
} as const;

/** A key of METHODS. */
export type MethodName = keyof typeof METHODS;

/** Calls a method over gRPC or HTTP. Throws an unexpected error, which is a bug of this program or of the server. */
export async function callMethod(
  running: Running,
  name: MethodName,
  fields: object,
  requestId: string,
  overHttp: boolean,
): Promise<CallResult> {
  return await (overHttp ? callHttp(running, name, fields, requestId) : callGrpc(running, name, fields, requestId));
}

async function callGrpc(
  { clients }: Running,
  name: MethodName,
  fields: object,
  requestId: string,
): Promise<CallResult> {
  const { path, encode, decode } = METHODS[name];
  const metadata = clients.metadata.clone();
  metadata.set('x-request-id', requestId);
  try {
    return {
      kind: 'done',
      response: await callUnary<ResponseFields>((callback) =>
        clients.access.makeUnaryRequest(
          path,
          encode,
          decode,
          fields,
          metadata,
          callback as (error: ServiceError | null, response?: ResponseFields) => void,
        ),
      ),
    };
  } catch (error) {
    const { code, details } = error as ServiceError;
    if (isServerGone(error)) return { kind: 'gone' };
    if (code !== status.NOT_FOUND) throw error;
    return { kind: 'refused', reason: details };
  }
}

async function callHttp(
  { http, key }: Running,
  name: MethodName,
  fields: object,
  requestId: string,
): Promise<CallResult> {
  const headers = {
    'content-type': 'application/json',
    'x-api-key': key.apiKey,
    'x-organization-id': key.organizationId,
    'x-request-id': requestId,
  };
  let code: number;
  let text: string;
  try {
    const response = await fetch(`http://${http}${METHODS[name].path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(fields),
    });
    [code, text] = [response.status, await response.text()];
  } catch {
    return { kind: 'gone' };
  }
  if (code < 300) return { kind: 'done', response: (text === '' ? {} : JSON.parse(text)) as ResponseFields };
  if (code >= 500) return { kind: 'gone' };
  if (code !== 404) throw new Error(`${name} over HTTP: ${code} ${text}`);
  return { kind: 'refused', reason: text };
}
