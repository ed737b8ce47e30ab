import type { DescMessage } from '@bufbuild/protobuf';
import fc from 'fast-check';
import * as accessControl from '../../../src/gen/organization_access_control/access_control_service';
import * as commands from '../../../src/gen/actuator_command/v2/actuator_command_service';
import * as connections from '../../../src/gen/connection/connection_service';
import * as connectors from '../../../src/gen/connector/connector_service';
import * as dashboards from '../../../src/gen/dashboard/v2/dashboard_service';
import * as devices from '../../../src/gen/digitaldevice/v2/digital_device_service';
import * as gateways from '../../../src/gen/gateway/v1/gateway_service';
import * as media from '../../../src/gen/media/v1/media_service';
import * as organizations from '../../../src/gen/organizations_service';
import * as queries from '../../../src/gen/sensorquery/v1/sensor_query_service';
import * as sensorTemplates from '../../../src/gen/sensor_template/v2/sensor_template_service';
import * as widgets from '../../../src/gen/widget/v2/widget_service';
import * as users from '../../../src/gen/userprofile/user_profile_service';
import type { Violation } from '../../../src/kernel/errors';
import { getApiDescriptors } from '../../../src/api/descriptors/descriptors';
import { ResponseSerializers } from '../../../src/api/json/responseSerializer';
import { RequestReaders } from '../../../src/api/json/requestReader';
import { parseStrict } from '../../../src/api/json/strictJson';
import { ArbitraryMessages } from './arbitraryMessages';

const SEED = 20_270_116;
const descriptors = getApiDescriptors();
const readers = new RequestReaders(descriptors);
const writers = new ResponseSerializers(descriptors);
const arbitrary = new ArbitraryMessages(descriptors);

interface Codec {
  readonly encode: (message: unknown) => { finish(): Uint8Array };
  readonly decode: (bytes: Uint8Array) => unknown;
  readonly fromPartial: (partial: object) => unknown;
}

const GENERATED: Readonly<Record<string, object>> = {
  'actuator_command.v2': commands,
  connection: connections,
  connector: connectors,
  'dashboard.v2': dashboards,
  'widget.v2': widgets,
  'digitaldevice.v2': devices,
  'gateway.v1': gateways,
  'media.v1': media,
  organization_access_control: accessControl,
  '': organizations,
  'sensor_template.v2': sensorTemplates,
  'sensorquery.v1': queries,
  userprofile: users,
};
const getCodec = ({ file, name }: DescMessage): Codec =>
  (GENERATED[file.proto.package] as Readonly<Record<string, Codec>>)[name] as Codec;
const methods = [...descriptors.methods.values()].filter(({ service }) => !service.startsWith('grpc.'));
const types = [
  ...new Map(
    methods.flatMap(({ request, response }) => [request, response]).map((desc) => [desc.typeName, desc]),
  ).values(),
].map((desc): [string, DescMessage, Codec] => [desc.typeName, desc, getCodec(desc)]);

function read(request: DescMessage, body: unknown): { message: unknown; violations: Violation[] } {
  const violations: Violation[] = [];
  const message = readers
    .createReader({ request, routes: [] })
    .read({ path: {}, query: new URLSearchParams(), body, bodyRule: '*' }, violations);
  return { message, violations };
}

describe('JSON messages', () => {
  it.each(types)('decode an empty %s as ts-proto creates it', (_, desc, codec) => {
    const { message, violations } = read(desc, {});
    const needed = desc.fields
      .filter((field) => descriptors.findJsonForm(field)?.requiredInJson)
      .map(({ jsonName }) => jsonName);
    expect(violations.map(({ field }) => field)).toEqual(needed);
    expect(message).toStrictEqual(codec.fromPartial({}));
  });

  it.each(types)(`read %s as it was written (seed ${SEED})`, (_, desc, codec) => {
    const writer = writers.getSerializer(desc);
    const runs = fc.property(arbitrary.of(desc), (message) => {
      const text = writer.toText(message);
      const { message: back, violations } = read(desc, parseStrict(Buffer.from(text)));
      expect(violations).toEqual([]);
      expect(back).toStrictEqual(message);
      expect(JSON.stringify(writer.toJsonValue(message))).toBe(text);
      expect(codec.decode(codec.encode(back).finish())).toEqual(message);
    });
    fc.assert(runs, { seed: SEED, numRuns: 15 });
  });

  it('can be read and written for every method', () => {
    for (const descriptor of descriptors.methods.values()) {
      expect(() => readers.createReader(descriptor)).not.toThrow();
      expect(() => writers.getSerializer(descriptor.response)).not.toThrow();
    }
  });
});
