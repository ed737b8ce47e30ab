import type { NormalizedKey as NormalizedKeyMessage, SensorTemplate as SensorTemplateMessage } from '../gen/sensor_template/v2/sensor_template_service';
import { etagOf } from '../kernel/etags';
import { toTimestamp } from '../kernel/timestamps';
import type { NormalizedKey, SensorTemplate } from './sensorTemplate';

/** A template on the wire. */
export function templateToMessage(template: SensorTemplate): SensorTemplateMessage {
  return {
    id: template.id,
    organizationId: template.organizationId ?? '',
    description: template.description,
    isSystem: template.organizationId === undefined,
    keyNameId: template.keyNameId,
    keyName: template.keyName,
    sensorType: template.sensorType,
    unitMeasurementId: template.unitMeasurementId,
    valueType: template.valueType,
    createdAt: toTimestamp(template.createdAt),
    updatedAt: toTimestamp(template.updatedAt),
    etag: etagOfOwn(template),
  };
}

/** A template as lists show it. */
export function listedTemplateToMessage(template: SensorTemplate): SensorTemplateMessage {
  return { ...templateToMessage(template), etag: '' };
}

/** A normalized key on the wire. */
export function keyToMessage(key: NormalizedKey): NormalizedKeyMessage {
  return {
    id: key.id,
    organizationId: key.organizationId ?? '',
    name: key.name,
    isSystem: key.organizationId === undefined,
    createdAt: toTimestamp(key.createdAt),
    updatedAt: toTimestamp(key.updatedAt),
    etag: etagOfOwn(key),
  };
}

/** A normalized key as lists show it. */
export function listedKeyToMessage(key: NormalizedKey): NormalizedKeyMessage {
  return { ...keyToMessage(key), etag: '' };
}

/** Nobody changes what comes with the server. */
function etagOfOwn({ organizationId, revision }: SensorTemplate | NormalizedKey): string {
  return organizationId === undefined ? '' : etagOf(revision);
}
