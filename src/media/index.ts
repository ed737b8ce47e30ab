export { checkImageList, type DeviceImage, type ImageInput } from './deviceImage';
export { parseDeviceImages, getDeviceImagesSql, ImageRepository } from './imageRepository';
export { mediaNotFound } from './media';
export { createLinkedMedia, mediaHandlers } from './mediaHandlers';
export { MediaLinks } from './mediaLinks';
export { MediaService } from './mediaService';
export { findMediaOwner, sumMediaBytes, listMediaFiles } from './mediaFileList';
