# Writes the password file of Mosquitto from the environment, then starts the broker.
set -eu
umask 077
passwords=/mosquitto/data/passwords
mosquitto_passwd -c -b "$passwords" plantroom "$MQTT_OF_PLANTROOM"
mosquitto_passwd -b "$passwords" chirpstack "$MQTT_OF_CHIRPSTACK"
mosquitto_passwd -b "$passwords" bridge "$MQTT_OF_BRIDGE"
exec mosquitto -c /mosquitto/config/mosquitto.conf
