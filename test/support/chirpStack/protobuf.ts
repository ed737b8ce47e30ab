import * as common from '@chirpstack/chirpstack-api/common/common_pb';
import * as gw from '@chirpstack/chirpstack-api/gw/gw_pb';
import * as integration from '@chirpstack/chirpstack-api/integration/integration_pb';
import { Struct } from 'google-protobuf/google/protobuf/struct_pb';
import { Timestamp } from 'google-protobuf/google/protobuf/timestamp_pb';
import { FIRST_DEV_ADDR, NAMES, type DownCommand, type Event, type InfoOfDevice } from './events';

/** Decodes a down command as ChirpStack does. Throws for invalid bytes. */
export function commandOfMessage(bytes: Uint8Array): DownCommand {
  const command = integration.DownlinkCommand.deserializeBinary(bytes);
  const expiresAt = command.getExpiresAt();
  return {
    id: command.getId(),
    devEui: command.getDevEui(),
    confirmed: command.getConfirmed(),
    fPort: command.getFPort(),
    data: Buffer.from(command.getData_asU8()),
    object: command.getObject()?.toJavaScript(),
    expiresAt: expiresAt && expiresAt.getSeconds() * 1000 + expiresAt.getNanos() / 1e6,
  };
}

function timestamp(milliseconds: number): Timestamp {
  const message = new Timestamp();
  message.setSeconds(Math.floor(milliseconds / 1000));
  message.setNanos((milliseconds % 1000) * 1e6 + 456_789);
  return message;
}

function getInfo({ applicationId, devEui, deviceClassEnabled }: InfoOfDevice): integration.DeviceInfo {
  const info = new integration.DeviceInfo();
  info.setTenantId(NAMES.tenantId);
  info.setTenantName(NAMES.tenantName);
  info.setApplicationId(applicationId);
  info.setApplicationName(NAMES.applicationName);
  info.setDeviceProfileId(NAMES.deviceProfileId);
  info.setDeviceProfileName(NAMES.deviceProfileName);
  info.setDeviceName(NAMES.deviceName);
  info.setDevEui(devEui);
  info.setDeviceClassEnabled(common.DeviceClass[deviceClassEnabled]);
  info.getTagsMap().set('site', 'north');
  return info;
}

/** Encodes an event as ChirpStack does. */
export function toMessage(event: Event): { serializeBinary(): Uint8Array } {
  return (WRITERS[event.kind] as (event: Event) => { serializeBinary(): Uint8Array })(event);
}

type Of<Kind extends Event['kind']> = Extract<Event, { kind: Kind }>;

const WRITERS: { readonly [Kind in Event['kind']]: (event: Of<Kind>) => { serializeBinary(): Uint8Array } } = {
  up: upMessage,
  join: (event) => {
    const message = new integration.JoinEvent();
    message.setDeduplicationId(event.deduplicationId);
    message.setDevAddr(event.devAddr);
    return headed(message, event);
  },
  ack: (event) => {
    const message = new integration.AckEvent();
    message.setDeduplicationId(event.deduplicationId);
    message.setQueueItemId(event.queueItemId);
    message.setAcknowledged(event.acknowledged);
    message.setFCntDown(event.fCntDown);
    return headed(message, event);
  },
  txack: (event) => {
    const message = new integration.TxAckEvent();
    message.setQueueItemId(event.queueItemId);
    message.setFCntDown(event.fCntDown);
    message.setGatewayId('0016c001f153a14c');
    return headed(message, event);
  },
  log: (event) => {
    const message = new integration.LogEvent();
    message.setLevel(integration.LogLevel[event.level]);
    message.setCode(integration.LogCode[event.code]);
    message.setDescription(event.description);
    for (const [key, value] of Object.entries(event.context)) message.getContextMap().set(key, value);
    return headed(message, event);
  },
  status: (event) => {
    const message = new integration.StatusEvent();
    message.setDeduplicationId(event.deduplicationId);
    message.setMargin(event.margin);
    message.setExternalPowerSource(event.externalPowerSource);
    message.setBatteryLevelUnavailable(event.batteryLevelUnavailable);
    message.setBatteryLevel(event.batteryLevel);
    return headed(message, event);
  },
  location: (event) => {
    const message = new integration.LocationEvent();
    const location = new common.Location();
    location.setLatitude(event.latitude);
    location.setLongitude(event.longitude);
    message.setDeduplicationId(event.deduplicationId);
    message.setLocation(location);
    return headed(message, event);
  },
};

interface Headed {
  setTime(value?: Timestamp): void;
  setDeviceInfo(value?: integration.DeviceInfo): void;
  serializeBinary(): Uint8Array;
}

function headed<M extends Headed>(message: M, event: Event): M {
  message.setTime(timestamp(event.time));
  message.setDeviceInfo(getInfo(event.deviceInfo));
  return message;
}

function upMessage(event: Of<'up'>): integration.UplinkEvent {
  const message = headed(new integration.UplinkEvent(), event);
  message.setDeduplicationId(event.deduplicationId);
  message.setDevAddr(event.devAddr ?? FIRST_DEV_ADDR);
  message.setAdr(true);
  message.setDr(5);
  message.setFCnt(event.fCnt);
  message.setFPort(event.fPort);
  message.setData(event.data);
  if (event.object) message.setObject(Struct.fromJavaScript(event.object));
  message.addRxInfo(rxInfo(event, 40, -30, -12));
  message.addRxInfo(rxInfo(event, 0, 0, 0));
  message.setRegionConfigId('eu868');
  return message;
}

function rxInfo(event: Of<'up'>, later: number, rssi: number, snr: number): gw.UplinkRxInfo {
  const rx = new gw.UplinkRxInfo();
  rx.setGatewayId('0016c001f153a14c');
  rx.setUplinkId(4217106255);
  rx.setGwTime(timestamp(event.time));
  rx.setNsTime(timestamp(event.nsTime + later));
  rx.setRssi(event.rssi + rssi);
  rx.setSnr(event.snr + snr);
  rx.setChannel(1);
  return rx;
}
